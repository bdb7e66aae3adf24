import { describe, expect, it } from 'vitest'
import { buildModel, PD, stored } from '../../../test/router/model-fixture.ts'
import { card, RecordingSink, request } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { ForwardedRequest, GenerateRequest, RoutingHints } from '../../request/index.ts'
import type { RouterOptions } from '../configuration/router-config.ts'

const [ONE, TWO, NINE] = [1, 2, 9].map(workerIdOf) as [
  ReturnType<typeof workerIdOf>,
  ReturnType<typeof workerIdOf>,
  ReturnType<typeof workerIdOf>,
]
const AGGREGATED = [card(1), card(2)]
const FORWARD: ForwardedRequest = {
  method: 'POST',
  path: '/v1/audio/speech',
  headers: {},
  body: new Uint8Array(0),
  sink: { onWhole: () => undefined, onHead: () => undefined, onBytes: () => undefined },
  errorEvent: () => '',
}

function outcome(cards: typeof AGGREGATED, routing: RoutingHints, config: RouterOptions = {}) {
  const { plane, send } = buildModel(cards, config)
  const [error] = send(routing).sink.errors
  return { error, calls: plane.calls }
}

describe('pins that cannot be followed are refused with 400', () => {
  it.each([
    ['an unknown backend', PD, { backendWorkerId: NINE }, 'no worker has the id 9'],
    ['an unknown decode worker', PD, { decodeWorkerId: NINE }, 'no worker has the id 9'],
    ['an unknown prefill worker', PD, { prefillWorkerId: NINE }, 'no prefill worker has the id 9'],
    ['a decode worker for prefill', PD, { prefillWorkerId: TWO }, 'no prefill worker has the id 2'],
    ['a prefill worker for decode', PD, { decodeWorkerId: ONE }, 'worker 1 is a prefill worker'],
    ['a prefill worker for all', PD, { backendWorkerId: ONE }, 'worker 1 is a prefill worker'],
    ['a prefill leg', AGGREGATED, { prefillWorkerId: ONE }, 'no prefill worker has'],
    [
      'a prefill rank',
      AGGREGATED,
      { prefillDpRank: 0 },
      '`prefill_dp_rank`: the request has no prefill phase',
    ],
    [
      'two workers that decode',
      AGGREGATED,
      { backendWorkerId: ONE, decodeWorkerId: TWO },
      'names 2, but `backend_instance_id` names 1',
    ],
    [
      'a worker that does not state the features that the request needs',
      [card(1), card(2, 'agg', { engine: { features: ['seed'] } })],
      { backendWorkerId: ONE, needsStatedFeatures: true },
      '`backend_instance_id`: worker 1 does not state the features of its engine',
    ],
    [
      'a worker without the adapter',
      AGGREGATED,
      { backendWorkerId: ONE, loraName: 'poet' },
      '`backend_instance_id`: worker 1 does not have the adapter `poet`',
    ],
    [
      'a prefill worker without the taint that is also required',
      PD,
      { prefillWorkerId: ONE, requiredTaints: ['gold'] },
      '`prefill_worker_id`: worker 1 does not have the required taint `gold`',
    ],
    ['a rank', AGGREGATED, { dpRank: 3 }, 'no worker has the data-parallel rank 3'],
    ['a rank of the prefill', PD, { prefillDpRank: 3 }, 'the data-parallel rank 3'],
    [
      'the worker header alone',
      PD,
      { backendWorkerId: TWO, decodeWorkerId: TWO },
      'x-dynamo-prefill-instance-id',
    ],
  ] as const)('%s', (_, cards, routing, message) => {
    const { error, calls } = outcome([...cards], routing)
    expect([error?.code, calls.length]).toEqual(['request.invalid_argument', 0])
    expect(error?.message).toContain(message)
  })

  it.each([{}, { backendWorkerId: TWO }, { decodeWorkerId: TWO }])(
    'direct mode with two legs and no prefill worker - an error that names the header',
    (routing) => {
      const { error } = outcome(PD, routing, { mode: 'direct' })
      expect(error?.message).toContain('x-dynamo-prefill-instance-id')
    },
  )

  it.each([
    { decodeWorkerId: workerIdOf(3) },
    { decodeWorkerId: workerIdOf(3), prefillWorkerId: ONE },
    { backendWorkerId: workerIdOf(3), prefillWorkerId: ONE },
  ])('%j: an agg worker as decode worker of two legs - is refused', (routing) => {
    const { error, calls } = outcome([...PD, card(3)], routing)
    expect([error?.code, calls.length]).toEqual(['request.invalid_argument', 0])
    expect(error?.message).toContain('its mode is agg')
  })

  it('an agg worker for the whole request - is not refused beside prefill and decode workers', () => {
    const { error, calls } = outcome([...PD, card(3)], { backendWorkerId: workerIdOf(3) })
    expect([error, calls[0]?.workerId]).toEqual([undefined, '3'])
  })

  it('a query - is checked as well', () => {
    expect(outcome(PD, { decodeWorkerId: NINE, queryOnly: true }).error?.row.httpStatus).toBe(400)
  })
})

describe('pins of prefill for a request that runs in one leg', () => {
  const LOGPROBS = { output: { promptLogprobs: 0 } }
  const refusalOf = (routing: RoutingHints, more: Partial<GenerateRequest>) => {
    const { plane, router } = buildModel(PD)
    const sink = new RecordingSink()
    router.service.send(request(16, routing, more), sink)
    return { error: sink.errors[0], calls: plane.calls }
  }

  it.each([
    [
      { prefillWorkerId: ONE },
      LOGPROBS,
      'the request has no prefill phase of its own: log-probabilities of the prompt',
    ],
    [
      { prefillDpRank: 0 },
      LOGPROBS,
      'the request has no prefill phase of its own: log-probabilities of the prompt',
    ],
    [
      { prefillWorkerId: ONE },
      { forward: FORWARD },
      'the request has no prefill phase of its own: forwarded unchanged',
    ],
    [{ backendWorkerId: TWO, prefillDpRank: 0 }, {}, 'cannot be used: `backend_instance_id` names'],
    [{ dpRank: 3 }, { kind: 'embed' }, 'no worker has the data-parallel rank 3'],
  ] as const)('%j - is refused', (routing, more, message) => {
    const { error, calls } = refusalOf(routing, more)
    expect([error?.code, calls.length]).toEqual(['request.invalid_argument', 0])
    expect(error?.message).toContain(message)
  })

  it('the worker header for a request in one leg - needs no prefill worker', () => {
    const { error, calls } = refusalOf({ backendWorkerId: TWO, decodeWorkerId: TWO }, LOGPROBS)
    expect([error, calls[0]?.workerId]).toEqual([undefined, '2'])
  })

  it('a rank of prefill - short prompts are not aggregated because of it', () => {
    const conditional = { enabled: true }
    const firstOf = (routing: RoutingHints) => {
      const { send, plane, router } = buildModel(PD, { conditional })
      // The decode worker has most of the prompt.
      router.fleet.kvEvents(TWO, stored(12))
      send(routing)
      return plane.call(0).workerId
    }
    expect(firstOf({})).toBe('2')
    expect(firstOf({ prefillDpRank: 0 })).toBe('1')
  })

  it('a rank of prefill whose prefill fails - is not aggregated', () => {
    const { plane, send } = buildModel(PD)
    const { sink } = send({ prefillDpRank: 0 })
    plane.call(0).fail('backend.engine_shutdown')
    expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['1'])
    expect(sink.errors[0]?.code).toBe('backend.engine_shutdown')
  })

  it('the rank of an embedding - is one of a prefill worker', () => {
    const two = { engine: { dataParallelSize: 2 } }
    for (let i = 0; i < 5; i++) {
      const { plane, router } = buildModel([card(1, 'prefill', two), card(2, 'decode')])
      const sink = new RecordingSink()
      router.service.send(request(16, { dpRank: 1 }, { kind: 'embed' }), sink)
      expect(sink.errors).toEqual([])
      expect(plane.call(0).request.routing.dpRank).toBe(1)
    }
  })
})

describe('a rank that only another decode worker has', () => {
  it('is refused before the prompt is computed', () => {
    const wide = card(3, 'decode', { engine: { dataParallelSize: 2 } })
    const { error, calls } = outcome([...PD, wide], { decodeWorkerId: TWO, dpRank: 1 })
    expect([error?.code, calls.length]).toEqual(['request.invalid_argument', 0])
    expect(error?.message).toContain('worker 2 has no data-parallel rank 1')
  })
})

describe('pins that can be followed', () => {
  it.each([
    [PD, { backendWorkerId: TWO }, '2'],
    [PD, { decodeWorkerId: TWO }, '1'],
    [PD, { prefillWorkerId: ONE, backendWorkerId: TWO, decodeWorkerId: TWO }, '1'],
    [AGGREGATED, { backendWorkerId: TWO, decodeWorkerId: TWO }, '2'],
    [AGGREGATED, { dpRank: 0 }, null],
  ] as const)('%j', (cards, routing, first) => {
    const { error, calls } = outcome([...cards], routing)
    expect(error).toBeUndefined()
    if (first !== null) expect(calls[0]?.workerId).toBe(first)
  })

  it('a rank without a worker - restricts to that rank of any worker', () => {
    const two = { engine: { dataParallelSize: 2 } }
    for (let i = 0; i < 5; i++) {
      const { calls } = outcome([card(1), card(2, 'agg', two)], { dpRank: 1 })
      expect([calls[0]?.workerId, calls[0]?.request.routing.dpRank]).toEqual(['2', 1])
    }
  })

  it('no worker at all - unavailable, as for any request', () => {
    const { error } = outcome([], { backendWorkerId: ONE })
    expect(error?.code).toBe('backend.worker_unavailable')
  })
})

describe('required topology', () => {
  const at = (zone: string) => ({ topology: { zone } })
  const topology = { domain: 'zone', enforcement: 'required' } as const

  it('a prefill worker without a decode worker in its domain - is not chosen', () => {
    const fleet = [
      card(1, 'prefill', at('a')),
      card(2, 'prefill', at('b')),
      card(3, 'prefill', at('c')),
      card(4, 'decode', at('b')),
    ]
    for (let i = 0; i < 6; i++) {
      const { plane, send } = buildModel(fleet, { topology })
      const { sink } = send({}, 16 + i)
      plane.call(0).prefilled()
      expect(plane.calls.map(({ workerId }) => workerId)).toEqual(['2', '4'])
      expect(sink.errors).toEqual([])
    }
  })

  it('a pinned decode worker - determines the domain', () => {
    const fleet = [
      card(1, 'prefill', at('a')),
      card(2, 'prefill', at('b')),
      card(3, 'decode', at('a')),
      card(4, 'decode', at('b')),
    ]
    const { plane, send } = buildModel(fleet, { topology })
    send({ decodeWorkerId: workerIdOf(3) })
    expect(plane.call(0).workerId).toBe('1')
  })

  it('two pinned workers of different domains - 400, because a retry would not help', () => {
    const fleet = [
      card(1, 'prefill', at('a')),
      card(2, 'prefill', at('b')),
      card(3, 'decode', at('a')),
      card(4, 'decode', at('b')),
    ]
    const { send, plane } = buildModel(fleet, { topology })
    const { sink } = send({ prefillWorkerId: ONE, decodeWorkerId: workerIdOf(4) })
    expect(sink.errors[0]?.code).toBe('request.invalid_argument')
    expect(sink.errors[0]?.message).toContain('zone=a')
    expect(plane.calls).toHaveLength(0)
    const preferred = { domain: 'zone', enforcement: 'preferred' } as const
    const free = buildModel(fleet, { topology: preferred })
    expect(free.send({ prefillWorkerId: ONE, decodeWorkerId: workerIdOf(4) }).sink.errors).toEqual(
      [],
    )
  })

  it.each([
    ['prefill', { prefillWorkerId: ONE }, 'no decode worker is in dynamo.topology/zone=a'],
    ['decode', { decodeWorkerId: workerIdOf(5) }, 'no prefill worker is in the zone of worker 5'],
  ])(
    'a pinned %s worker without a partner in its domain - 400, it says what is missing',
    (_, pin, text) => {
      const fleet = [
        card(1, 'prefill', at('a')),
        card(2, 'prefill', at('b')),
        card(4, 'decode', at('b')),
        card(5, 'decode', at('c')),
      ]
      const { send, plane } = buildModel(fleet, { topology })
      const { sink } = send(pin)
      expect(sink.errors[0]?.code).toBe('request.invalid_argument')
      expect(sink.errors[0]?.message).toContain(text)
      expect(plane.calls).toHaveLength(0)
      expect(send().sink.errors).toEqual([])
    },
  )

  it('no worker has a partner - the error says what is missing, and the self-check what is refused', () => {
    const fleet = [card(1, 'prefill', at('a')), card(2, 'decode', at('b'))]
    const { send, plane, router } = buildModel(fleet, { topology })
    expect(send().sink.errors[0]?.message).toContain('missing-taint')
    expect(plane.calls).toHaveLength(0)
    expect(router.status().warnings[0]).toMatch(/two legs are refused/)
  })

  it.each([
    [['a', 'b'], ['a', 'b'], []],
    [['a', 'b', 'c'], ['b'], [/^2 of 3 prefill workers get no requests/]],
    [['a'], ['a', 'b'], [/^1 of 2 decode workers/]],
    [
      ['a', 'b'],
      ['b', 'c'],
      [/^1 of 2 prefill/, /^1 of 2 decode/],
    ],
    [['a'], [], []],
    [[], ['a'], []],
  ])(
    'prefill in %j, decode in %j - the self-check names who gets nothing',
    (prefill, decode, said) => {
      const fleet = [
        ...prefill.map((zone, i) => card(1 + i, 'prefill', at(zone))),
        ...decode.map((zone, i) => card(10 + i, 'decode', at(zone))),
      ]
      const warnings = (enforcement: 'required' | 'preferred') =>
        buildModel(fleet, { topology: { ...topology, enforcement } }).router.status().warnings
      expect(warnings('required')).toEqual(said.map((words) => expect.stringMatching(words)))
      expect(warnings('preferred')).toEqual([])
    },
  )
})

describe('workers that do not report their block size', () => {
  const unknown = (id: number) => {
    const { engine, ...rest } = card(id)
    const { kvCacheBlockSize: _, ...others } = engine
    return { ...rest, engine: others }
  }

  it('are routed to without KV awareness, and the self-check says so', () => {
    const { send, router } = buildModel([unknown(1), unknown(2)])
    send()
    const { sent } = send()
    const [record] = router.explain(sent.requestId) ?? []
    expect(record?.candidates.every(({ terms }) => terms['device'] === 0)).toBe(true)
    expect(router.status().decode.knowsBlocks).toBe(false)
    expect(router.status().selfCheck.join()).toContain('routing without KV')
  })

  const foreign = (id: number) => {
    const { engine, ...rest } = unknown(id)
    return {
      ...rest,
      publishesKvEvents: false,
      engine: { ...engine, runtimeData: { upstream_kind: 'openai' } },
    }
  }

  it('remote engines among them - are assumed to cache what they were sent', () => {
    const { router } = buildModel([foreign(1), foreign(2)])
    expect(router.status().decode).toMatchObject({ knowsBlocks: true, blockSize: 16 })
    expect(router.status().selfCheck.join()).not.toContain('routing without KV')
  })

  it('a worker that reports its block size joins remote engines - its size is used', () => {
    const { router } = buildModel([foreign(1), card(2)])
    expect(router.status().decode.blockSize).toBe(card(2).engine.kvCacheBlockSize)
  })

  it('the option blockSize - supplies it', () => {
    const { send, router } = buildModel([unknown(1)], { blockSize: 4, useKvEvents: false })
    send()
    const { sent } = send()
    const [record] = router.explain(sent.requestId) ?? []
    expect(record?.candidates[0]?.terms['device']).toBeGreaterThan(0)
  })
})
