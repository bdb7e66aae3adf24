/**
 * Reads the body of a request as a whole, or drops one that is refused.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { OpenRequest } from '../../frontend/index.ts'
import { BodyPieces } from './body-pieces.ts'

/**
 * Sends `100 Continue` to a client that waits for it (`Expect`), unless its body is going to be refused. False: the
 * client was not asked for its body. One of HTTP/1.0 knows no such answer and would take it for the last one (RFC 9110,
 * 10.1.1).
 */
export function inviteBody(open: OpenRequest, req: IncomingMessage, res: ServerResponse): boolean {
  const { expect, 'content-length': length = 0 } = req.headers
  if (expect === undefined || req.httpVersion < '1.1') return true
  if (open.reply !== undefined || (open.bodyBytesMax > 0 && Number(length) > open.bodyBytesMax)) {
    return false
  }
  res.writeContinue()
  return true
}

/**
 * The whole body; null: it exceeds the limit (the rest is not kept); undefined: the client disconnected before its
 * end.
 */
export function readBody(
  req: IncomingMessage,
  bytesMax: number,
): Uint8Array | null | Promise<Uint8Array | null | undefined> {
  if (bytesMax === 0) {
    req.resume()
    return EMPTY
  }
  const length = Number(req.headers['content-length'] ?? 0)
  if (length > bytesMax) return null
  return new Promise((settle) => {
    const reading: BodyRequest = req
    reading[BODY] = { pieces: new BodyPieces(length, bytesMax), settle }
    reading.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
  })
}

/**
 * The listeners live as long as the request, which may be a stream of hours. So they are the same for all requests, and
 * what they need is with the request until its body has arrived.
 */
const BODY = Symbol('body')

interface BodyRequest extends IncomingMessage {
  [BODY]?: {
    readonly pieces: BodyPieces
    settle(body: Uint8Array | null | undefined): void
  } | null
}

function onData(this: BodyRequest, chunk: Buffer): void {
  if (this[BODY]?.pieces.add(chunk) === false) settle(this, null)
}

function onEnd(this: BodyRequest): void {
  settle(this, this[BODY]?.pieces.whole())
}

function onGone(this: BodyRequest): void {
  settle(this, undefined)
}

function settle(req: BodyRequest, body: Uint8Array | null | undefined): void {
  const reading = req[BODY]
  req[BODY] = null
  reading?.settle(body)
}

/**
 * Reads and drops the rest of a body for a limited time, because most clients read no answer before they have sent
 * everything, and would report a network error if the connection was closed. False: the client has not finished, and
 * is not waited for.
 */
export function untilSent(
  req: IncomingMessage,
  bytesMax: number,
  withinMs: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => done(false), withinMs)
    const done = (isWhole: boolean): void => {
      clearTimeout(timer)
      resolve(isWhole)
    }
    if (req.complete || req.destroyed) return done(req.complete)
    let bytes = 0
    req.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > bytesMax) done(false)
    })
    req.once('end', () => done(true))
    req.once('error', () => done(false))
    req.once('close', () => done(false))
  })
}

const EMPTY = new Uint8Array(0)
