/**
 * Reports the end of a connection to all replies of a pipeline. Node 20 reports it only to the reply whose turn it is, so
 * the other requests would never be cancelled.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** The replies of each connection that waited for an earlier one when their request arrived. */
const waiting = new WeakMap<Socket, Set<ServerResponse>>()

/** From now on `res` has a 'close' event in any case. Only for HTTP/1.1. */
export function reportClose(res: ServerResponse): void {
  // Its turn has come: Node reports it.
  if (res.socket !== null) return
  const { socket } = res.req
  const replies = waiting.get(socket) ?? repliesOf(socket)
  replies.add(res)
  res.once('close', () => replies.delete(res))
}

function repliesOf(socket: Socket): Set<ServerResponse> {
  const replies = new Set<ServerResponse>()
  waiting.set(socket, replies)
  socket.once('close', () => closeAll(replies))
  return replies
}

function closeAll(replies: Set<ServerResponse>): void {
  for (const res of replies) if (res.socket === null) res.destroy()
  // Node 24 reports it to all by now, and nothing may be reported twice.
  setImmediate(() => {
    for (const res of replies) if (res.socket === null) res.emit('close')
  })
}
