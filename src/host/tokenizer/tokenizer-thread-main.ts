/**
 * The program of a tokenizer thread.
 */
import { messageOf } from '../../base/index.ts'
import { getPriority, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import type { ModelText } from '../../text/index.ts'
import { loadModelText } from './model-files.ts'
import type { EncodeResult, EncodeTask } from './tokenizer-threads.ts'

/**
 * Lower priority than the thread that serves the streams: when all cores are busy, a long prompt waits instead of a
 * token.
 */
const NICE_STEPS = 10
const NICE_MAX = 19

const texts = new Map<string, Promise<ModelText>>()

function textOf(modelPath: string): Promise<ModelText> {
  const known = texts.get(modelPath) ?? loadModelText(modelPath)
  texts.set(modelPath, known)
  return known
}

async function encode(task: EncodeTask): Promise<EncodeResult> {
  try {
    const { tokenizer } = await textOf(task.modelPath)
    return { tokenIds: tokenizer.encode(task.text, task.options) }
  } catch (error) {
    texts.delete(task.modelPath)
    return { failure: messageOf(error) }
  }
}

/** Only Linux has a priority for each thread; elsewhere the priority of the whole process would change. */
function stepBack(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(Math.min(getPriority() + NICE_STEPS, NICE_MAX))
  } catch {
    // A sandbox may forbid it; then the priority stays unchanged.
  }
}

stepBack()
parentPort?.on('message', (task: EncodeTask) => {
  void encode(task).then((result) => {
    // The ids are moved, because each copy is memory outside of a heap, which makes V8 collect that heap.
    const moved = 'tokenIds' in result ? [result.tokenIds.buffer as ArrayBuffer] : []
    parentPort?.postMessage(result, moved)
  })
})
