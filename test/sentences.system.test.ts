import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { BatonsInTurn } from './in-turn.ts'
import { runBaton } from './running-server.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

const folder = mkdtempSync(join(tmpdir(), 'baton-sentences-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function file(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

const tls = (name: string): string =>
  fileURLToPath(new URL(`fixtures/tls/${name}`, import.meta.url))
const BROKEN = file('broken.pem', '-----BEGIN CERTIFICATE-----\nabc\n')
const PLAIN = file('plain.txt', 'no PEM')
/** Nobody writes to it. */
const PIPE = join(folder, 'pipe')
if (process.platform !== 'win32') execFileSync('mkfifo', [PIPE])
const serve = ['serve', '--engine', 'sim', '--port', '0']
const tlsArgs = (cert: string, key: string, ca: string): string[] => [
  ...serve,
  '--tls-cert',
  cert,
  '--tls-key',
  key,
  '--tls-ca',
  ca,
]

/** Environment errors are reported in one line without a stack trace that says what to change. */
describe('environment errors', () => {
  it.each(['frontend --port 0', 'worker --engine sim'])(
    'baton %s with a discovery folder that cannot exist - exit code 2 and the sentence',
    async (command) => {
      const path = join(folder, 'missing', 'fleet')
      const args = [...command.split(' '), '--discovery-dir', path]
      const { exitCode, printed } = await runBaton(args)
      expect(exitCode).toBe(2)
      expect(printed).toContain(`baton: ${path} cannot be used as the folder of a fleet`)
    },
  )

  it.each([
    ['is not there', join(folder, 'nowhere'), 'ENOENT'],
    ['is a file', PLAIN, 'ENOTDIR'],
  ])('TMPDIR %s - the error names the path and the variable', async (_, path, code) => {
    const { exitCode, printed } = await runBaton(serve, { TMPDIR: path })
    expect([exitCode, printed]).toEqual([
      2,
      `baton: no folder can be created in ${path} (${code}): choose another one with TMPDIR\n`,
    ])
  })

  const ENDLESS = 'more than 16777216 bytes'
  it.skipIf(process.platform === 'win32').each([
    [['serve', '--config', '/dev/zero'], `/dev/zero: not readable as YAML: EFBIG: ${ENDLESS}`],
    [[...serve, '--config', folder], 'not readable as YAML: EISDIR'],
    [[...serve, '--router-config', '/dev/zero'], `/dev/zero: EFBIG: ${ENDLESS}`],
    [[...serve, '--sim-args', '/dev/zero'], `--sim-args /dev/zero: EFBIG: ${ENDLESS}`],
    [[...serve, '--engine-pace', '/dev/zero'], `--engine-pace /dev/zero: EFBIG: ${ENDLESS}`],
    [['serve', '--upstream-file', '/dev/zero'], `--upstream-file: EFBIG: ${ENDLESS}`],
    [['serve', '--upstream-file', folder], '--upstream-file: EISDIR'],
    [[...serve, '--keys', '/dev/zero'], 'keys: /dev/zero cannot be read: EFBIG'],
    [
      [...serve, '--http-tls-cert', '/dev/zero', '--http-tls-key', tls('fleet.key')],
      `--http-tls-cert: EFBIG: ${ENDLESS}`,
    ],
    [tlsArgs('/dev/zero', tls('fleet.key'), tls('fleet-ca.pem')), `--tls-cert: EFBIG: ${ENDLESS}`],
    [['serve', '--engine', '/dev/zero', '--port', '0'], '--engine /dev/zero: is not a file'],
    [['worker', '--engine', PIPE], `--engine ${PIPE}: is not a file`],
    [[...serve, '--scorer', PIPE], `--scorer ${PIPE}: is not a file`],
    [[...serve, '--filter', PIPE], `--filter ${PIPE}: is not a file`],
    [[...serve, '--picker', '/dev/zero'], '--picker /dev/zero: is not a file'],
    [
      ['frontend', '--port', '0', '--discovery-dir', folder, '--scorer', PIPE],
      `--scorer ${PIPE}: is not a file`,
    ],
    [
      [...serve, '--sim-args', '{"planner_profile_data":"/dev/zero"}'],
      'EFBIG: more than 268435456 bytes',
    ],
    [['replay', '/dev/zero'], 'trace /dev/zero: not readable: it has more than 1073741824 bytes'],
  ])(
    '%j - an endless file, a pipe or a folder is refused in a sentence',
    async (args, sentence) => {
      const { exitCode, printed } = await runBaton(args)
      expect(printed).toContain(sentence)
      expect(printed.trimEnd().split('\n')).toHaveLength(1)
      expect(exitCode).toBe(2)
    },
  )

  it.each([
    ['cannot be created', '/proc/baton/files', 'ENOENT'],
    ['is a file', PLAIN, 'is not a folder'],
  ])('--files-dir %s - the error names the path', async (_, path, why) => {
    const { exitCode, printed } = await runBaton([...serve, '--files-dir', path])
    expect(exitCode).toBe(2)
    expect(printed).toMatch(new RegExp(`^baton: --files-dir ${path} cannot be used: [^\n]*${why}`))
  })

  it.each([
    ['is not there', tlsArgs('x', tls('fleet.key'), tls('fleet-ca.pem')), '--tls-cert: ENOENT'],
    ['is a folder', tlsArgs(folder, tls('fleet.key'), tls('fleet-ca.pem')), '--tls-cert: EISDIR'],
    ['is no PEM', tlsArgs(PLAIN, tls('fleet.key'), tls('fleet-ca.pem')), 'expected a PEM file'],
    [
      'is broken',
      tlsArgs(BROKEN, tls('fleet.key'), tls('fleet-ca.pem')),
      '--tls-cert: the file is',
    ],
    [
      'has expired',
      tlsArgs(tls('expired.pem'), tls('fleet.key'), tls('fleet-ca.pem')),
      '--tls-cert: the certificate expired on Jan  1',
    ],
    [
      'has an expired CA',
      tlsArgs(tls('fleet.pem'), tls('fleet.key'), tls('expired.pem')),
      '--tls-ca: the certificate expired on Jan  1',
    ],
    ['has a broken key', tlsArgs(tls('fleet.pem'), BROKEN, tls('fleet-ca.pem')), '--tls-key: the'],
    ['has a broken CA', tlsArgs(tls('fleet.pem'), tls('fleet.key'), BROKEN), '--tls-ca: the file'],
    [
      'has the key of another',
      tlsArgs(tls('fleet.pem'), tls('stranger.key'), tls('fleet-ca.pem')),
      '--tls-key: the key does not belong to the certificate of --tls-cert',
    ],
  ])('a certificate that %s - the error names the option', async (_, args, sentence) => {
    const { exitCode, printed } = await batons.run(args)
    expect([exitCode, printed]).toEqual([2, expect.stringContaining(sentence)])
    expect(printed).toMatch(/^baton: [^\n]+\n$/)
  })

  // Node 20 cannot load a WebAssembly module under this limit; newer versions can, and then serve.
  it('a limit of the address space - is named instead of a stack trace, or has no effect', async () => {
    const main = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
    const command = `ulimit -v 4000000; exec "$0" "$@"`
    const args = [process.execPath, main, ...serve]
    const child = spawn('sh', ['-c', command, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
    let printed = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (bytes: Buffer) => {
        printed += bytes.toString()
        if (!child.killed && printed.includes('Ctrl-C')) child.kill('SIGTERM')
      })
    }
    const exitCode = await new Promise((resolve) => child.once('close', resolve))
    const serves = printed.includes('Ctrl-C')
    expect([exitCode, printed]).toEqual([
      serves ? 0 : 1,
      expect.stringMatching(serves ? /Ctrl-C/ : /^baton: [^\n]*ulimit -v[^\n]*\n$/),
    ])
    expect(printed).not.toMatch(/^ +at /m)
  })

  it.each(['explain x', 'roll', 'chat', 'top --once'])(
    'a limit of the address space: baton %s - is not blamed on the server, which answers',
    async (command) => {
      const server = createServer((_, reply) => {
        reply.statusCode = 404
        reply.end('{"error":{"message":"nothing here"}}')
      })
      await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => void server.close())
      const { port } = server.address() as AddressInfo
      const main = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
      const args = [main, ...command.split(' '), '--url', `http://127.0.0.1:${port}`]
      const limited = ['-c', 'ulimit -v 3000000; exec "$0" "$@"', process.execPath, ...args]
      const child = spawn('sh', limited, { stdio: ['ignore', 'pipe', 'pipe'] })
      let printed = ''
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (bytes: Buffer) => (printed += bytes.toString()))
      expect(await new Promise((resolve) => child.once('close', resolve))).toBe(1)
      expect(printed).toMatch(/^baton: [^\n]*\n$/)
      expect(printed).not.toMatch(/no server|no answer/)
    },
  )

  it.each(['explain x', 'doctor', 'bench http://127.0.0.1:1'])(
    'baton %s with a key of several lines - the key is at fault, and is not printed',
    async (command) => {
      const { exitCode, printed } = await batons.run(command.split(' '), {
        BATON_API_KEY: 'secret\nkey',
      })
      expect([exitCode, printed]).toEqual([
        2,
        'baton: BATON_API_KEY is invalid: expected a key in one line, of ASCII characters\n',
      ])
    },
  )

  it('worker --mode - has a variable, and an invalid value is named as it was given', async () => {
    const args = ['worker', '--engine', 'sim', '--discovery-dir', folder]
    const { exitCode, printed } = await runBaton(args, { BATON_MODE: 'nope' })
    expect([exitCode, printed]).toEqual([2, expect.stringMatching(/^baton: BATON_MODE: [^\n]*\n$/)])
    const help = await batons.run(['worker', '--help'])
    expect(help.printed).toContain('[BATON_MODE]')
  })

  it.each([
    ['chat', { BATON_URL: 'zzz' }, 'BATON_URL: zzz is invalid'],
    ['top', { BATON_URL: 'ftp://x' }, 'BATON_URL: ftp://x is invalid'],
    ['chat --url zzz', { BATON_URL: 'http://127.0.0.1:8000' }, '--url: zzz is invalid'],
    ['bench zzz', {}, '<url>: zzz is invalid'],
    ['bench http://127.0.0.1:1 --direct zzz', {}, '--direct: zzz is invalid'],
    ['config', { BATON_CONFIG: 'no.yaml' }, 'BATON_CONFIG: the file no.yaml does not exist'],
    ['config --config no.yaml', {}, '--config: the file no.yaml does not exist'],
    ['config', { BATON_ROUTER_CONFIG: 'no.yaml' }, 'BATON_ROUTER_CONFIG: the file no.yaml does'],
    ['config', { BATON_DISCOVERY: 'foo:bar' }, "BATON_DISCOVERY: 'foo:bar' is invalid"],
    ['config', { BATON_ENGINE_PACE: 'no' }, 'BATON_ENGINE_PACE no: ENOENT'],
    ['serve --engine sim', { BATON_KEYS: '{' }, 'BATON_KEYS'],
    ['serve --engine sim', { BATON_STATE: 'foo' }, 'BATON_STATE is invalid: expected memory'],
    ['serve --engine sim', { BATON_HOST: '0.0.0.0' }, 'BATON_HOST 0.0.0.0 can be reached'],
    ['serve --engine sim --host 0.0.0.0', {}, '--host 0.0.0.0 can be reached'],
    [
      'config --router-index-bytes 99999999999999999999',
      {},
      '--router-index-bytes: "99999999999999999999" is invalid: expected a size below 8192TiB',
    ],
  ])('baton %s with %j - is named as it was given', async (command, variables, sentence) => {
    const { exitCode, printed } = await batons.run(command.split(' '), variables)
    expect([exitCode, printed]).toEqual([2, expect.stringContaining(`baton: ${sentence}`)])
    expect(printed).toMatch(/^[^\n]+\n$/)
  })

  it.each(['static:127.0.0.1:7000', 'kubernetes', 'kubernetes:fleet/app=baton'])(
    'worker --discovery %s without a port - is refused, because no frontend could find the worker',
    async (place) => {
      const { exitCode, printed } = await batons.run([
        'worker',
        '--engine',
        'sim',
        '--discovery',
        place,
      ])
      expect([exitCode, printed]).toEqual([
        2,
        expect.stringMatching(
          /^baton: --discovery (static|kubernetes): [^\n]*--worker-port[^\n]*\n$/,
        ),
      ])
    },
  )

  it('--discovery kubernetes outside a cluster - one line and exit code 2', async () => {
    const frontend = await runBaton(
      ['frontend', '--port', '0', '--discovery', 'kubernetes:ns/app=x'],
      { KUBERNETES_SERVICE_HOST: undefined },
    )
    expect([frontend.exitCode, frontend.printed]).toEqual([
      2,
      'baton: --discovery kubernetes: this process does not run in a Kubernetes cluster (KUBERNETES_SERVICE_HOST is not set)\n',
    ])
  })
})
