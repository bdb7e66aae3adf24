/**
 * Real vLLM servers: `BATON_TEST_VLLM` names a folder with `venv` (vLLM, and NIXL for hand-over) and `model` (a
 * Hugging Face folder of the model that ships with Baton). A server takes one to two minutes to start and 4 GB of
 * memory.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../free-port.ts'
import { startPythonEngine } from './python-engine.ts'
import type { RealServer } from './real-engine.ts'

const FOLDER = process.env['BATON_TEST_VLLM'] ?? null

export function vllmFolder(): string | null {
  if (FOLDER === null) {
    console.log('SKIPPED: real vLLM: BATON_TEST_VLLM names no folder')
    return null
  }
  if (existsSync(path.join(FOLDER, 'venv/bin/vllm'))) return FOLDER
  console.log(`SKIPPED: real vLLM: ${FOLDER} has no venv/bin/vllm`)
  return null
}

function textModel(): string {
  return path.join(FOLDER ?? '', 'model')
}

/**
 * A vLLM server that takes images and has random weights. `folder` is created and belongs to the caller. An image
 * is 16 tokens; blocks have 32 tokens, so that a block holds an image and the text around it.
 */
export async function startVllmWithImages(folder: string): Promise<RealVllm> {
  if (!existsSync(path.join(folder, 'config.json'))) {
    const script = fileURLToPath(new URL('image-model.py', import.meta.url))
    execFileSync(path.join(FOLDER ?? '', 'venv/bin/python'), [script, textModel(), folder], {
      env: { ...process.env, HF_HUB_OFFLINE: '1' },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  }
  return startVllm(undefined, folder, ['--load-format', 'dummy'])
}

export interface RealVllm extends RealServer {
  readonly modelPath: string
}

/** `role`: one side of a hand-over with NIXL. */
export async function startVllm(
  role?: 'prefill' | 'decode',
  modelPath = textModel(),
  more: readonly string[] = [],
): Promise<RealVllm> {
  const folder = FOLDER ?? ''
  const [port, events, replay, side] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ]
  const kvEvents = {
    enable_kv_cache_events: true,
    publisher: 'zmq',
    endpoint: `tcp://*:${events}`,
    replay_endpoint: `tcp://*:${replay}`,
    topic: 'kv',
  }
  const transfer = {
    kv_connector: 'NixlConnector',
    kv_role: role === 'prefill' ? 'kv_producer' : 'kv_consumer',
    kv_buffer_device: 'cpu',
  }
  const common =
    '--served-model-name storyteller --host 127.0.0.1 --enforce-eager --max-model-len 4096 --dtype float32 --max-num-seqs 16 --enable-prompt-tokens-details'
  const ofRole =
    role === undefined
      ? ['--block-size', '32', '--enable-scale-out']
      : ['--kv-transfer-config', JSON.stringify(transfer)]
  const flags = [
    '--port',
    String(port),
    '--kv-events-config',
    JSON.stringify(kvEvents),
    ...common.split(' '),
    ...ofRole,
    ...more,
  ]
  const server = await startPythonEngine({
    name: 'vLLM',
    ...(role === undefined ? {} : { role }),
    folder,
    port,
    command: ['venv/bin/vllm', 'serve', modelPath, ...flags],
    env: {
      VLLM_CPU_KVCACHE_SPACE: '1',
      VLLM_CPU_OMP_THREADS_BIND: 'nobind',
      VLLM_HOST_IP: '127.0.0.1',
      VLLM_NO_USAGE_STATS: '1',
      VLLM_NIXL_SIDE_CHANNEL_HOST: '127.0.0.1',
      VLLM_NIXL_SIDE_CHANNEL_PORT: String(side),
    },
  })
  return { ...server, modelPath }
}
