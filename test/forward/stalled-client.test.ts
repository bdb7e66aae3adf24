/** Forward mode: a client that does not read, over a real socket. */
import { connect } from 'node:net'
import { expect, it } from 'vitest'
import { ForwardStream } from '../../src/frontend/forward/forward-stream.ts'
import { osClock } from '../../src/os/index.ts'
import { serve, streamOf } from '../network/http-trial.ts'
import { until } from '../until.ts'

it('a client that does not read - its connection is closed after a time, without a last event', async () => {
  const flow = { pause: () => undefined, resume: () => undefined }
  let isStalled = false
  const trial = await serve(
    async () => {
      const stream = new ForwardStream({
        flow,
        clock: osClock,
        stalledMs: 200,
        onStalled: () => {
          isStalled = true
          // What the run does with an error of the engine.
          stream.write('data: {"error":{}}\n\n')
          stream.end()
        },
      })
      return streamOf((writer) => {
        stream.open(writer)
        stream.write('x')
        // In another turn, and more than the buffers of the kernel.
        setImmediate(() => stream.write('x'.repeat(16 * 1024 * 1024)))
      })
    },
    { bufferedBytesMax: 64 * 1024 * 1024 },
  )
  const socket = connect(trial.server.port, '127.0.0.1')
  socket.on('error', () => socket.destroy())
  socket.pause()
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  await until('the client has stalled', () => isStalled)
  await until('its request is over', () => trial.server.requestsActive === 0)
  expect(trial.slowReaders).toEqual([])
  socket.destroy()
})
