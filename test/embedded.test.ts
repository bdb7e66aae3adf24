import { describe, expect, it, onTestFinished, vi } from 'vitest'

describe('examples/embedded.ts', () => {
  it('frontend and two workers in one process - a request uses prefill and decode, and everything shuts down', async () => {
    const printed: unknown[][] = []
    const log = vi.spyOn(console, 'log').mockImplementation((...line) => void printed.push(line))
    onTestFinished(() => log.mockRestore())
    await import('../examples/embedded.ts')
    const [status, text] = printed[0] ?? []
    expect(status).toBe(200)
    expect(JSON.parse(String(text))).toMatchObject({
      choices: [{ finish_reason: 'length', message: { content: expect.any(String) } }],
      usage: { completion_tokens: 16 },
      nvext: {
        worker_id: {
          prefill_worker_id: expect.any(Number),
          decode_worker_id: expect.any(Number),
        },
      },
    })
  })
})
