import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { runBaton, startServer } from './running-server.ts'

const folder = mkdtempSync(join(tmpdir(), 'baton-sim-args-'))
const PROFILE = fileURLToPath(new URL('fixtures/planner-profile-stored.npz', import.meta.url))

afterAll(() => rmSync(folder, { recursive: true, force: true }))

function file(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

describe('baton serve --engine sim --sim-args', () => {
  it('a file of arguments - sets cards, bootstrap rooms and replayed output of the workers', async () => {
    const rows = file(
      'rows.jsonl',
      '{"output_replay_id":"three","output_length":3,"output_token_ids":[300,300,300]}\n',
    )
    const args = file(
      'args.yaml',
      [
        'num_gpu_blocks: 123',
        'num_g2_blocks: 50',
        'dp_size: 2',
        'bootstrap_port: 0',
        `response_replay_trace_path: ${rows}`,
        `planner_profile_data: ${PROFILE}`,
      ].join('\n'),
    )
    const fleet = join(folder, 'fleet')
    const sim = ['--engine', 'sim', '--sim-args', args, '--sim-block-size', '32']
    const server = await startServer([...sim, '--discovery-dir', fleet])
    try {
      const cards = readdirSync(fleet).map((name) => {
        const entry = JSON.parse(readFileSync(join(fleet, name), 'utf8')) as {
          card: { mode: string; engine: Record<string, unknown> }
        }
        return entry.card
      })
      for (const { engine } of cards)
        expect(engine).toMatchObject({
          totalKvBlocks: 123,
          kvCacheBlockSize: 32,
          dataParallelSize: 2,
          maxNumSeqs: 256,
        })
      const prefill = cards.find(({ mode }) => mode === 'prefill')
      expect(prefill?.engine['bootstrapPort']).toBeGreaterThan(0)
      const reply = await fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          model: 'storyteller',
          messages: [{ role: 'user', content: 'Hello' }],
          nvext: { annotations: ['output_replay_id:three'] },
        }),
      })
      const { choices } = (await reply.json()) as {
        choices: { message: { content: string }; finish_reason: string }[]
      }
      const { content } = choices[0]?.message ?? { content: '' }
      const piece = content.slice(0, content.length / 3)
      expect([choices[0]?.finish_reason, content]).toEqual(['stop', piece.repeat(3)])
    } finally {
      expect(await server.stop()).toBe(0)
    }
  })

  it.each([
    ['{"aic_system":"h200_sxm"}', '--sim-args: aic_system must be left out: AI Configurator'],
    ['{"worker_type":"agg"}', 'worker_type agg contradicts --mode prefill'],
  ])('%s - is refused in one line before any worker serves', async (args, line) => {
    const sim = ['--engine', 'sim', '--sim-args', args]
    const { exitCode, printed } = await runBaton(['serve', '--port', '0', ...sim])
    expect(printed).toContain(line)
    expect(printed.trim().split('\n')).toHaveLength(1)
    expect(exitCode).toBe(2)
  })

  it('refused by the second worker of a process - the first worker ends too', async () => {
    const args = ['--in-process', '--port', '0', '--sim-args', '{"worker_type":"prefill"}']
    const { exitCode, printed } = await runBaton(['serve', '--engine', 'sim', ...args])
    expect(printed).toContain('worker_type prefill contradicts --mode decode')
    expect(exitCode).toBe(2)
  })
})
