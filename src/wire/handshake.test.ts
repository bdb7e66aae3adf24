import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'

import { BatonError } from '../base/index.ts'
import { FrameDecoder } from './frame-decoder.ts'
import { batonLimits } from './frame-limits.ts'
import { FrameWriter } from './frame-writer.ts'
import { Handshake } from './handshake.ts'
import { encodeHello } from './hello.ts'
import type { Hello } from './hello.ts'

class Side {
  readonly writer = new FrameWriter()
  readonly handshake: Handshake
  readonly decoder: FrameDecoder

  constructor(side: 'initiator' | 'acceptor', secret: string | null, nonce = side.length) {
    this.handshake = new Handshake({
      side,
      self: {
        role: side === 'initiator' ? 'frontend' : 'worker',
        software: '1.2.3',
        capabilities: ['kv-events'],
        limits: { streamsMax: 5 },
        workerId: '7',
      },
      nonce: new Uint8Array(16).fill(nonce),
      ...(secret === null
        ? {}
        : { prove: (text) => createHmac('sha256', secret).update(text).digest() }),
    })
    this.decoder = new FrameDecoder(batonLimits(), {
      onFrame: (tag, bytes, start, end) => {
        this.handshake.onFrame(tag, bytes, start, end, this.writer)
      },
    })
    this.handshake.begin(this.writer)
  }

  take(): Uint8Array {
    return this.writer.take() ?? new Uint8Array(0)
  }
}

function shake(left: Side, right: Side): void {
  for (let round = 0; round < 3; round++) {
    const [fromLeft, fromRight] = [left.take(), right.take()]
    right.decoder.push(fromLeft)
    left.decoder.push(fromRight)
  }
}

function messageOf(run: () => void): string {
  try {
    run()
    return 'none'
  } catch (error) {
    return error instanceof BatonError ? `${error.code}: ${error.message}` : String(error)
  }
}

const HELLO: Hello = {
  version: 1,
  versionOldest: 1,
  nonce: new Uint8Array(16),
  role: 'worker',
  software: '',
  capabilities: [],
  limits: {},
  authRequired: false,
}

function sendHello(change: Partial<Hello>): string {
  const writer = new FrameWriter()
  encodeHello(writer, { ...HELLO, ...change })
  return messageOf(() => new Side('initiator', null).decoder.push(writer.take()!))
}

describe('handshake', () => {
  it('both sides - complete with and without a secret, and know each other', () => {
    for (const secret of [null, 's']) {
      const [left, right] = [new Side('initiator', secret), new Side('acceptor', secret)]
      shake(left, right)
      expect([left.handshake.isReady, right.handshake.isReady]).toEqual([true, true])
      expect(left.handshake.peer.role).toBe('worker')
      expect(right.handshake.peer).toMatchObject({
        role: 'frontend',
        workerId: '7',
        limits: { streamsMax: 5 },
      })
    }
  })

  it('the acceptor - sends no proof before the initiator has', () => {
    const [left, right] = [new Side('initiator', 's'), new Side('acceptor', 's')]
    right.decoder.push(left.take())
    const answer = right.take()
    // HELLO alone: its length shows that nothing follows.
    expect(8 + new DataView(answer.buffer, answer.byteOffset).getUint32(0, true)).toBe(
      answer.length,
    )
    left.decoder.push(answer)
    expect([left.handshake.isReady, right.handshake.isReady]).toEqual([false, false])
    right.decoder.push(left.take())
    expect(right.handshake.isReady).toBe(true)
    left.decoder.push(right.take())
    expect(left.handshake.isReady).toBe(true)
  })

  it('an acceptor of 0.1.0, which sends its proof at once - is accepted', () => {
    const left = new Side('initiator', 's')
    const old = new FrameWriter()
    const nonce = new Uint8Array(16).fill(9)
    encodeHello(old, { ...HELLO, nonce, authRequired: true })
    const proved = Uint8Array.of(2, ...new Uint8Array(16).fill('initiator'.length), ...nonce)
    old.begin(41).bytes(createHmac('sha256', 's').update(proved).digest()).end()
    left.take()
    left.decoder.push(old.take()!)
    expect(left.handshake.isReady).toBe(true)
    // It still sends its own proof.
    expect(left.take().length).toBe(8 + 32)
  })

  it('a wrong secret - is refused; a missing one is refused with what to do', () => {
    expect(messageOf(() => shake(new Side('initiator', 'a'), new Side('acceptor', 'b')))).toMatch(
      /different shared secrets/,
    )
    expect(messageOf(() => shake(new Side('initiator', null), new Side('acceptor', 'b')))).toMatch(
      /configure the same secret on both/,
    )
    expect(messageOf(() => shake(new Side('initiator', 'a'), new Side('acceptor', null)))).toMatch(
      /configure the same secret on both/,
    )
  })

  it('a reflected handshake - does not authenticate', () => {
    const side = new Side('initiator', 's')
    expect(
      messageOf(() => {
        side.decoder.push(side.take())
        side.decoder.push(side.take())
      }),
    ).toMatch(/different shared secrets/)
  })

  it('a proof of an earlier connection - is refused', () => {
    const [left, right] = [new Side('initiator', 's', 1), new Side('acceptor', 's', 2)]
    const hello = left.take()
    right.decoder.push(hello)
    left.decoder.push(right.take())
    const auth = left.take()
    const later = new Side('acceptor', 's', 3)
    later.decoder.push(hello)
    expect(messageOf(() => later.decoder.push(auth))).toMatch(/different shared secrets/)
  })

  it('another version - the message says which side to upgrade', () => {
    expect(sendHello({ version: 3, versionOldest: 2 })).toMatch(
      /version_mismatch.*upgrade this process/,
    )
    expect(sendHello({ version: 0, versionOldest: 0 })).toMatch(
      /version_mismatch.*upgrade the peer/,
    )
    expect(sendHello({ version: 9, versionOldest: 1 })).toBe('none')
  })

  it('a frame before HELLO, or a second HELLO - is refused', () => {
    const ping = new FrameWriter().begin(70).end().take()!
    expect(messageOf(() => new Side('acceptor', null).decoder.push(ping))).toMatch(/expected HELLO/)
    const twice = new FrameWriter()
    encodeHello(twice, HELLO)
    encodeHello(twice, HELLO)
    const side = new Side('acceptor', null)
    expect(messageOf(() => side.decoder.push(twice.take()!))).toMatch(/expected AUTH/)
  })

  it('another protocol - is recognised by its first bytes', () => {
    const writer = new FrameWriter().begin(40).bytes(new Uint8Array(30)).end()
    const side = new Side('acceptor', null)
    expect(messageOf(() => side.decoder.push(writer.take()!))).toMatch(/does not speak/)
    const http = new TextEncoder().encode('GET / HTTP/1.1\r\n\r\n')
    expect(messageOf(() => new Side('acceptor', null).decoder.push(http))).toMatch(/protocol/)
  })
})
