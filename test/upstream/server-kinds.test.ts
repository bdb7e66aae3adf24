/** Which server stands at a URL: found from what recorded ones say of themselves. */
import { describe, expect, it } from 'vitest'
import { served } from './recorded-server.ts'

describe('kinds', () => {
  it.each([
    ['vllm', 'vllm', '0.32.0'],
    ['sglang', 'sglang', null],
    ['mlx-lm', 'openai', null],
    ['transformers-serve', 'openai', null],
  ])('%s - is found to be %s', async (engine, kind, version) => {
    const { engine: found } = await served(engine, () => undefined)
    expect(found.found).toMatchObject({ kind, version })
  })

  it('a prefill server of SGLang - says its role', async () => {
    const { engine } = await served('sglang', () => undefined)
    expect(engine.found?.mode).toBe('agg')
  })
})
