import { expect, it, onTestFinished, vi } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../../test/frontend/scripted-frontend.ts'
import { TextLoader } from './text-loader.ts'

/** A loader whose model cannot be loaded while `isDamaged`, and the number of attempts. */
function start() {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const model = { isDamaged: true, loads: 0 }
  const { frontend } = new ScriptedFrontend({
    options: {
      loadText: async () => {
        model.loads += 1
        if (model.isDamaged) throw new Error('tokenizer.json is damaged')
        return storyteller()
      },
    },
  })
  const loader = new TextLoader(() => frontend.registry.models)
  onTestFinished(() => {
    loader.close()
    frontend.close()
  })
  return { loader, model }
}

it('a model that cannot be loaded - is tried again every 5 s until it can', async () => {
  const { loader, model } = start()
  await expect(loader.load()).rejects.toThrow('tokenizer.json is damaged')
  await vi.advanceTimersByTimeAsync(4_999)
  expect(model.loads).toBe(1)
  await vi.advanceTimersByTimeAsync(1)
  expect(model.loads).toBe(2)
  model.isDamaged = false
  await vi.advanceTimersByTimeAsync(5_000)
  expect(model.loads).toBe(3)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(model.loads).toBe(3)
})

it('a loader that is closed - does not try again', async () => {
  const { loader, model } = start()
  await expect(loader.load()).rejects.toThrow('tokenizer.json is damaged')
  loader.close()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(model.loads).toBe(1)
})
