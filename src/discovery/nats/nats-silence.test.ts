import { ClosedConnectionError, RequestError, TimeoutError } from '@nats-io/transport-node'
import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { isSilence } from './nats-discovery.ts'
import { unavailable } from './nats-session.ts'

/** As the client library throws it; the class is not exported by what Baton depends on. */
const refusal = Object.assign(new Error('insufficient storage: connection'), {
  name: 'JetStreamApiError',
  code: 10_047,
})

describe('isSilence', () => {
  it.each([
    ['the session is not connected', unavailable('x'), true],
    ['no answer in time', unavailable('x', new TimeoutError()), true],
    ['the connection is closed', unavailable('x', new ClosedConnectionError()), true],
    [
      'nobody answers the request',
      BatonError.from(new RequestError(), 'discovery.unavailable'),
      true,
    ],
    ['nested', unavailable('x', unavailable('y', new TimeoutError())), true],
    ['the server refuses', unavailable('connection', refusal), false],
    ['another fault', unavailable('timeout', new Error('timeout')), false],
    ['another code', new BatonError('config.invalid', 'not connected'), false],
  ])('%s - %s', (_, error, expected) => {
    expect(isSilence(error)).toBe(expected)
  })
})
