/**
 * Reads the metrics of an engine twice, as two scrapes would, and checks that they can be shown.
 */
import { isEngineMetric } from '../engine-metric.ts'
import type { EngineMetric } from '../engine-metric.ts'
import { messageOf } from './conformance-subject.ts'
import type { ConformanceSubject } from './conformance-subject.ts'

export async function checkMetrics(subject: ConformanceSubject): Promise<void> {
  const { engine, report } = subject
  if (engine.metrics === undefined) {
    report.skip('metrics', 'the engine has no metrics')
    return
  }
  await subject.read(subject.request(2))
  let readings: (readonly EngineMetric[])[]
  try {
    readings = [engine.metrics(), engine.metrics()]
  } catch (error) {
    report.fail('metrics-failed', messageOf(error))
    return
  }
  const odd = readings.flat().find((metric) => !isEngineMetric(metric))
  if (odd !== undefined) report.fail('metrics-invalid', JSON.stringify(odd))
  const [first = '', second = ''] = readings.map(familiesOf)
  if (first !== second) report.fail('metrics-unstable', `first ${first}, then ${second}`)
}

function familiesOf(metrics: readonly EngineMetric[]): string {
  return [...new Set(metrics.map(({ name, kind }) => `${name} (${kind})`))].toSorted().join(', ')
}
