/**
 * Baton as a library: a frontend, a prefill worker and a decode worker in one process, and one request.
 * Run: npx tsx examples/embedded.ts
 *
 * For workers in other processes, use `FileDiscovery` and `TcpRequestPlane` instead of `MemoryDiscovery` and
 * `LocalRequestPlane`. For a real model, use `LlamaCppEngine` instead of `SimEngine`.
 */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import {
  createModelRouter,
  Frontend,
  HostedWorker,
  HttpServer,
  loadModelText,
  LocalRequestPlane,
  MemoryDiscovery,
  osClock,
  osRandom,
  SimEngine,
} from 'baton-llm'

/** The model that ships with Baton: the simulated engine uses its tokenizer. */
const root = dirname(createRequire(import.meta.url).resolve('baton-llm/package.json'))
const model = join(root, 'models/storyteller')
const onFault = (error: unknown): void => console.error(error)

const plane: LocalRequestPlane = new LocalRequestPlane({
  onKvEvents: (workerId, batch) => frontend.registry.kvEvents(workerId, batch),
  onLoad: (workerId, report) => frontend.registry.load(workerId, report),
  onFault,
})
const frontend = new Frontend({
  clock: osClock,
  random: osRandom,
  createRouter: () => createModelRouter({ plane, clock: osClock, random: osRandom }),
  loadText: (card) => loadModelText(card.engine.modelPath ?? model),
})
const discovery = new MemoryDiscovery()
const watch = await discovery.watch({
  joined: (card) => frontend.registry.workerJoined(card),
  left: (workerId, reason) => frontend.registry.workerLeft(workerId, reason),
})
const workers = (['prefill', 'decode'] as const).map(
  (mode) =>
    new HostedWorker({
      engine: new SimEngine({ clock: osClock, mode, model: 'story', modelPath: model }),
      engineName: 'sim',
      mode,
      version: '1',
      plane: { kind: 'local', plane },
      discovery,
      shutdown: { routerGraceMs: 0 },
    }),
)
await Promise.all(workers.map((worker) => worker.start()))

const http = await HttpServer.listen({
  host: '127.0.0.1',
  port: 0,
  open: (head) => frontend.open(head),
  onFault,
})
const reply = await fetch(`http://127.0.0.1:${http.port}/v1/chat/completions`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    model: 'story',
    messages: [{ role: 'user', content: 'Tell me a story about a brave fox named Mira.' }],
    max_tokens: 16,
    nvext: { extra_fields: ['worker_id'] },
  }),
})
console.log(reply.status, await reply.text())

await http.close(1000)
await Promise.all(workers.map((worker) => worker.stop()))
watch.close()
frontend.close()
await plane.close()
await discovery.close()
