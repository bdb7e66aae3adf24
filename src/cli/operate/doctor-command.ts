/**
 * `baton doctor`: checks a fleet and prints what is wrong and what to do. Exit code 1 when there is a fault.
 */
import { BatonError } from '../../base/index.ts'
import { EXIT_FAILED } from '../../host/index.ts'
import { fault, findingLines } from './finding.ts'
import type { Finding } from './finding.ts'
import { fleetChecks } from './fleet-checks.ts'
import type { FleetSource } from './fleet-source.ts'
import { localChecks } from './local-checks.ts'
import { serverChecks } from './server-checks.ts'

interface DoctorOptions {
  /** Called late, so that a failure to open is a finding too. */
  readonly open: () => Promise<FleetSource>
  /** Null: the fleet is read from its workers. */
  readonly url: string | null
  readonly json: boolean
  /** Folders of this machine that the fleet writes to. */
  readonly folders: readonly string[]
}

export async function runDoctor({ open, url, json, folders }: DoctorOptions): Promise<number> {
  // Asked at the same time, so that the report of a server that does not answer takes one deadline.
  const [ofServer, ofFleet] = await Promise.all([
    url === null ? [] : asFindings('server', () => serverChecks(url)),
    asFindings('fleet', () => fleetFindings(open)),
  ])
  // A server that does not answer is reported once, not twice.
  const known = new Set(ofServer.map(({ text }) => text))
  const findings: readonly Finding[] = [
    ...(await localChecks(folders)),
    ...ofServer,
    ...ofFleet.filter(({ text }) => !known.has(text)),
  ]
  console.log(json ? JSON.stringify(findings, null, 2) : findingLines(findings).join('\n'))
  return findings.some(({ level }) => level === 'fault') ? EXIT_FAILED : 0
}

async function fleetFindings(open: () => Promise<FleetSource>): Promise<readonly Finding[]> {
  const source = await open()
  try {
    return fleetChecks(await source.fleet())
  } finally {
    await source.close()
  }
}

/** A failed check becomes a finding. Wrong arguments are thrown. */
async function asFindings(
  topic: string,
  find: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await find()
  } catch (error) {
    const failure = BatonError.from(error)
    if (failure.code === 'config.invalid' || failure.code === 'runtime.internal') throw failure
    const [text = '', ...advice] = failure.message.split(': ')
    return [fault(topic, text, advice.join(': ') || 'see its log')]
  }
}
