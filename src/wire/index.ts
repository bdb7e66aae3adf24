/** Room `wire`: frames, messages and versions; what crosses between processes. */
export type {
  KvBlockReader,
  KvClient,
  KvHold,
  KvOfferOptions,
  KvPullStats,
  KvReleaseReason,
  KvServer,
  KvServerStats,
} from './kv-transport.ts'
export type { ReplyPort, WorkerHandler, WorkerUplink } from './reply-port.ts'
