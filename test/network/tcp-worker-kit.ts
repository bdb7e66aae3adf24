/** A worker server over TCP, request planes and raw frontends that connect to it; all are closed after the test. */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { LoadReport } from '../../src/kv/index.ts'
import { TcpRequestPlane } from '../../src/network/plane/tcp-request-plane.ts'
import type { TcpRequestPlaneOptions } from '../../src/network/plane/tcp-request-plane.ts'
import { TcpWorkerServer } from '../../src/network/plane/tcp-worker-server.ts'
import type { TcpWorkerServerOptions } from '../../src/network/plane/tcp-worker-server.ts'
import { WORKER, countingHandler } from '../../src/testing/request-plane-kit.ts'
import { FrameDecoder, FrameWriter, Handshake, batonLimits } from '../../src/wire/index.ts'
import type { ReplyPort, WorkerHandler } from '../../src/wire/index.ts'

/** A report with a different number in each field. */
export const LOAD: LoadReport = {
  dpRank: 0,
  activeBlocks: 1,
  totalBlocks: 2,
  runningRequests: 3,
  queuedRequests: 4,
  prefillTokensInFlight: 5,
}

/**
 * Registers a call for the end of the test that runs. Hooks at the top of this module would be those of the first test file
 * in its process only.
 */
export function afterTest(cleanup: () => unknown): void {
  onTestFinished(async () => void (await cleanup()))
}

/** Starts a worker server that is closed after the test. */
export async function listen(
  options: Partial<TcpWorkerServerOptions> = {},
): Promise<TcpWorkerServer> {
  const server = await TcpWorkerServer.listen({ handler: countingHandler, ...options })
  afterTest(() => server.close())
  return server
}

/** A request plane with one worker, this server; closed after the test. */
export function planeTo(
  server: { host: string; port: number },
  options: TcpRequestPlaneOptions = {},
): TcpRequestPlane {
  const plane = new TcpRequestPlane({ backoffMsMin: 5, backoffMsMax: 20, ...options })
  plane.workerJoined({ workerId: WORKER, host: server.host, port: server.port })
  afterTest(() => plane.close())
  return plane
}

/** A frontend of raw frames, for tests of what a real one never sends and of single frames. */
export class BareFrontend {
  /** Received frames; `turn` counts the reads from the socket. */
  readonly frames: { tag: number; length: number; turn: number }[] = []
  readonly writer = new FrameWriter()
  readonly socket: Socket
  isReady = false
  isClosed = false
  turn = 0

  constructor(
    server: { host: string; port: number },
    windowItems = 1_000_000,
    capabilities: readonly string[] = [],
  ) {
    const handshake = new Handshake({
      side: 'initiator',
      self: {
        role: 'frontend',
        software: '',
        capabilities,
        limits: { streamWindowItems: windowItems },
      },
      nonce: new Uint8Array(16),
    })
    const decoder = new FrameDecoder(batonLimits(), {
      onFrame: (tag, bytes, start, end) => {
        if (handshake.isReady) this.frames.push({ tag, length: end - start, turn: this.turn })
        else handshake.onFrame(tag, bytes, start, end, this.writer)
        this.isReady = handshake.isReady
      },
    })
    this.socket = connect({ host: server.host, port: server.port, noDelay: true })
    this.socket.on('data', (piece: Buffer) => {
      this.turn += 1
      decoder.push(piece)
      this.flush()
    })
    this.socket.on('close', () => (this.isClosed = true))
    this.socket.on('error', () => undefined)
    handshake.begin(this.writer)
    this.flush()
    afterTest(() => this.socket.destroy())
  }

  flush(): void {
    const bytes = this.writer.take()
    if (bytes) this.socket.write(bytes)
  }
}

/** A handler that records its replies and cancellations; a test ends the replies. */
export function openHandler(): WorkerHandler & { replies: ReplyPort[]; cancels: string[] } {
  const replies: ReplyPort[] = []
  const cancels: string[] = []
  return {
    replies,
    cancels,
    serve: (_request, reply) => {
      replies.push(reply)
      return { cancel: (kind) => void cancels.push(kind), drop: () => void cancels.push('drop') }
    },
  }
}
