/**
 * Real SGLang servers: `BATON_TEST_SGLANG` names a folder with `venv` (SGLang, and NIXL for hand-over) and `model`
 * (a Hugging Face folder of the model that ships with Baton). docs/engines-people-run.md says how to start it
 * without a GPU. A server takes about a minute to start and 2.5 GB of memory.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { freePort } from '../free-port.ts'
import { startPythonEngine } from './python-engine.ts'
import type { RealServer } from './real-engine.ts'

const FOLDER = process.env['BATON_TEST_SGLANG'] ?? null

export function sglangFolder(): string | null {
  if (FOLDER === null) {
    console.log('SKIPPED: real SGLang: BATON_TEST_SGLANG names no folder')
    return null
  }
  if (existsSync(path.join(FOLDER, 'venv/lib'))) return FOLDER
  console.log(`SKIPPED: real SGLang: ${FOLDER} has no venv`)
  return null
}

const COMMON =
  '--served-model-name storyteller --host 127.0.0.1 --device cpu --dtype float32 --attention-backend torch_native --sampling-backend pytorch --disable-cuda-graph --disable-overlap-schedule --mem-fraction-static 0.1 --max-total-tokens 20000 --page-size 16 --enable-metrics --enable-cache-report'

/** `role`: one side of a hand-over with NIXL. */
export async function startSglang(role?: 'prefill' | 'decode'): Promise<RealServer> {
  const folder = FOLDER ?? ''
  const [port, bootstrap, events, replay] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ]
  const kvEvents = {
    publisher: 'zmq',
    endpoint: `tcp://*:${events}`,
    replay_endpoint: `tcp://*:${replay}`,
    topic: 'kv',
  }
  const apart = ['--disaggregation-mode', role ?? '', '--disaggregation-transfer-backend', 'nixl']
  const ofRole = {
    prefill: [...apart, '--disaggregation-bootstrap-port', String(bootstrap)],
    // The default allocation needs memory pinned by CUDA.
    decode: [...apart, '--disaggregation-decode-retraction-backup', 'cpu_tensor'],
    agg: ['--kv-events-config', JSON.stringify(kvEvents)],
  }[role ?? 'agg']
  return await startPythonEngine({
    name: 'SGLang',
    ...(role === undefined ? {} : { role }),
    folder,
    port,
    command: [
      'venv/bin/python',
      '-m',
      'sglang.launch_server',
      '--model-path',
      path.join(folder, 'model'),
      '--port',
      String(port),
      ...COMMON.split(' '),
      ...ofRole,
    ],
    env: { SGLANG_USE_CPU_ENGINE: '1' },
  })
}
