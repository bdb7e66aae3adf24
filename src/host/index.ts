/** Room `host`. */
export { HttpServer } from './http-server.ts'
export type { HttpServerOptions } from './http-server.ts'
export { loadModelText, readGgufFile } from './model-files.ts'
export type { LoadedModelText } from './model-files.ts'
export { osClock } from './os-clock.ts'
export { osRandom } from './os-random.ts'
export { WorkerSupervisor } from './worker-supervisor.ts'
export type { SupervisorEvent, WorkerProcess, WorkerReport, WorkerSpec } from './worker-supervisor.ts'
