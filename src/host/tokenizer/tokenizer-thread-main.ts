/**
 * What runs on the tokenizer's thread.
 */
import { parentPort } from 'node:worker_threads'
import type { ModelText } from '../../text/index.ts'
import { loadModelText } from './model-files.ts'
import type { EncodeResult, EncodeTask } from './tokenizer-thread.ts'

const texts = new Map<string, Promise<ModelText>>()

function textOf(modelPath: string): Promise<ModelText> {
  const known = texts.get(modelPath) ?? loadModelText(modelPath)
  texts.set(modelPath, known)
  return known
}

async function encode(task: EncodeTask): Promise<EncodeResult> {
  try {
    const { tokenizer } = await textOf(task.modelPath)
    return { id: task.id, tokenIds: tokenizer.encode(task.text, task.options) }
  } catch (error) {
    texts.delete(task.modelPath)
    return { id: task.id, failure: error instanceof Error ? error.message : String(error) }
  }
}

parentPort?.on('message', (task: EncodeTask) => {
  void encode(task).then((result) => parentPort?.postMessage(result))
})
