/** Foreign trace formats: Dynamo's sessions, Baton's log, CSV of lengths. */
import { describe, expect, it } from 'vitest'
import { parseTrace } from './trace-reader.ts'

const line = (entry: unknown): string => JSON.stringify(entry)

describe('parseTrace - sessions', () => {
  it('a delay in a session - follows the end of the previous turn', () => {
    const text = [
      line({ timestamp: 5, session_id: 'a', hash_ids: [1], output_length: 3 }),
      line({ timestamp: 7, session_id: 'b', hash_ids: [2], input_length: 100, output_length: 4 }),
      line({ delay: 250, session_id: 'a', hash_ids: [1, 3], output_length: 5 }),
      line({ session_id: 'b', hash_ids: [2, 4], output_length: 6 }),
    ].join('\n')
    const [first, second, third, fourth] = parseTrace(text)
    expect(first).toMatchObject({ atMs: 0, inputTokens: 512, sessionId: 'a' })
    expect(second).toMatchObject({ atMs: 2, inputTokens: 100 })
    expect(third).toMatchObject({ after: 0, delayMs: 250, inputTokens: 1024 })
    expect(fourth).toMatchObject({ after: 1, delayMs: 0 })
  })

  it('a time in a session - the turn keeps its distance to the previous one', () => {
    const text = [
      line({ timestamp: 5, session_id: 'a', hash_ids: [1], output_length: 3 }),
      line({ timestamp: 40, session_id: 'a', hash_ids: [1, 2], output_length: 3 }),
    ].join('\n')
    expect(parseTrace(text)[1]).toMatchObject({ after: 0, delayMs: 35 })
    const back = text.replace('40', '4')
    expect(() => parseTrace(back)).toThrow(/line 2 .*before the turn/)
  })

  it('a prompt longer than its ids - the rest is shared with no other; a priority is used', () => {
    const entry = { timestamp: 0, hash_ids: [1], input_length: 1500, output_length: 1, priority: 2 }
    const [first, second] = parseTrace(`${line(entry)}\n${line(entry)}`)
    expect(first).toMatchObject({ inputTokens: 1500, priority: 2 })
    expect(first!.hashIds).toHaveLength(3)
    expect(second!.hashIds[0]).toBe(1)
    expect(second!.hashIds.slice(1)).not.toContain(first!.hashIds[1])
  })

  it('a delay without a session - counts from the previous line', () => {
    const text = [
      line({ timestamp: 10, hash_ids: [1], output_length: 1 }),
      line({ delay: 5, hash_ids: [2], output_length: 1 }),
    ].join('\n')
    expect(parseTrace(text)[1]).toMatchObject({ atMs: 5 })
    expect(parseTrace(text)[1]).not.toHaveProperty('after')
  })

  it('block size - from the line, from the option, or 512', () => {
    const text = line({ timestamp: 0, hash_ids: [1, 2], output_length: 1 })
    expect(parseTrace(text)[0]).toMatchObject({ inputTokens: 1024 })
    expect(parseTrace(text, { blockTokens: 16 })[0]).toMatchObject({ inputTokens: 32 })
    const own = line({ timestamp: 0, hash_ids: [1, 2], output_length: 1, block_size: 64 })
    expect(parseTrace(own, { blockTokens: 16 })[0]).toMatchObject({ inputTokens: 128 })
    expect(() => parseTrace(text, { blockTokens: 0 })).toThrow('blockTokens')
  })

  it.each([
    [{ timestamp: 0, hash_ids: [1], output_length: 1, priority: 'high' }, 'priority'],
    [{ timestamp: 0, hash_ids: [1], input_length: 0, output_length: 1 }, 'input_length'],
    [
      { timestamp: 0, hash_ids: [], input_length: 2 ** 24 + 1, output_length: 1 },
      'no input_length from 1 to 16777216',
    ],
    [
      { timestamp: 0, hash_ids: [], input_length: 1, output_length: 2 ** 24 + 1 },
      'no output_length from 1 to 16777216',
    ],
    [{ timestamp: 0, hash_ids: ['x'], output_length: 1 }, 'hash_ids'],
    [
      { timestamp: -1, hash_ids: [1], output_length: 1 },
      'timestamp that is not a number of milliseconds',
    ],
    [{ delay: -1, hash_ids: [1], output_length: 1 }, 'delay'],
    [{ timestamp: 0, hash_ids: [1], output_length: 1, block_size: 0 }, 'block_size'],
    [7, 'neither two columns'],
    [[7], 'not a JSON object'],
    [{ timestamp: 0, hash_ids: ['12'], output_length: 1 }, 'hash_ids'],
    [{ timestamp: 0, hash_ids: [1.5], output_length: 1 }, 'hash_ids'],
  ])('%o - names the line and the fault', (entry, what) => {
    expect(() => parseTrace(`\n${line(entry)}`)).toThrow(new RegExp(`line 2 .*${what}`))
  })
})

describe('parseTrace - input files', () => {
  const entry = (timestamp: unknown, more = {}): unknown => ({
    timestamp,
    hash_ids: [1],
    output_length: 1,
    ...more,
  })

  it('a time beyond all numbers - is refused in every format', () => {
    const mooncake = '{"timestamp":1e999,"hash_ids":[1],"output_length":1}'
    expect(() => parseTrace(mooncake)).toThrow('timestamp that is not a number')
    const delayed = '{"delay":1e999,"hash_ids":[1],"output_length":1}'
    expect(() => parseTrace(delayed)).toThrow('delay')
    expect(() => parseTrace('ms,input,output\n1e999,5,6')).toThrow('no time')
  })

  it('a byte order mark and the line ends of Windows', () => {
    const json = parseTrace(`\uFEFF${line(entry(0))}\r\n${line(entry(7))}\r\n`)
    expect(json.map(({ atMs }) => atMs)).toEqual([0, 7])
    const csv = parseTrace('\uFEFFms,input,output\r\n3,10,5\r\n8,20,6\r\n')
    expect(csv.map(({ atMs }) => atMs)).toEqual([0, 5])
  })

  it('clock times, or a part of a trace - the earliest request comes first, at 0', () => {
    const text = [entry(1_700_000_000_500), entry(1_700_000_000_000), entry(1_700_000_002_000)]
      .map(line)
      .join('\n')
    expect(parseTrace(text).map(({ atMs }) => atMs)).toEqual([500, 0, 2000])
    expect(parseTrace(text, { arrivalSpeedup: 2 }).map(({ atMs }) => atMs)).toEqual([250, 0, 1000])
  })

  it('spread, with times out of order - each until the next later time', () => {
    const text = [entry(3000), entry(0), entry(0), entry(3000), entry(6000)].map(line).join('\n')
    expect(parseTrace(text, { spread: true }).map(({ atMs }) => atMs)).toEqual([
      3000, 0, 1500, 4500, 6000,
    ])
  })

  it('no hash_ids - nothing is shared; an output_length of 0 - the line is ignored', () => {
    const text = [
      line({ timestamp: 0, input_length: 1000, output_length: 2 }),
      line({ timestamp: 1, input_length: 1000, output_length: 0, hash_ids: [1, 2] }),
      line({ timestamp: 2, input_length: 1000, output_length: 2, hash_ids: null }),
    ].join('\n')
    const requests = parseTrace(text)
    expect(requests.map(({ atMs }) => atMs)).toEqual([0, 2])
    expect(new Set(requests.flatMap(({ hashIds }) => hashIds)).size).toBe(4)
  })

  it('null - counts as absent', () => {
    const text = [
      entry(null, { delay: 30 }),
      entry(50, { session_id: 'a', delay: null, input_length: null, block_size: null }),
      entry(null, { session_id: 'a' }),
    ]
    const [, second, third] = parseTrace(text.map(line).join('\n'))
    expect(second).toMatchObject({ atMs: 20, inputTokens: 512 })
    expect(third).toMatchObject({ after: 1, delayMs: 0 })
  })

  it('ids of 64 bits - two that differ in the last digit are different', () => {
    const row = (...ids: string[]): string =>
      `{"timestamp":0,"output_length":1,"hash_ids":[${ids.join(', ')}]}`
    const text = [
      row('18446744073709551615', '-9223372036854775808'),
      row('18446744073709551615', '-9223372036854775807', '7'),
    ].join('\n')
    const [first, second] = parseTrace(text).map(({ hashIds }) => hashIds)
    expect(second![0]).toBe(first![0])
    expect(second![1]).not.toBe(first![1])
    expect(second![2]).toBe(7)
    expect(new Set([...first!, ...second!]).size).toBe(4)
  })

  it('input that is neither JSON nor a list of numbers - is reported', () => {
    expect(() => parseTrace('[')).toThrow('line 1 of the trace is not JSON')
    expect(() => parseTrace(`[${line(entry(0))}]`)).toThrow('line 1 of the trace is not a JSON obj')
    expect(() => parseTrace('100|10')).toThrow('names no columns for input and output lengths')
  })
})

describe("parseTrace - Dynamo's graphs and recordings", () => {
  const header = line({ schema: 'dynamo.agentic_mooncake', version: 2, block_size: 4 })
  const row = (id: string, dependencies: unknown[], more = {}): string =>
    line({
      request_id: id,
      session_id: id,
      input_length: 6,
      output_length: 2,
      hash_ids: [301],
      not_before_ms: 3,
      dependencies,
      ...more,
    })

  it('a graph - dependencies between requests', () => {
    const text = [
      header,
      row('root', []),
      row('child', [{ request_id: 'root', trigger: 'dispatch', delay_ms: 5, relation: 'spawn' }]),
      row('join', [
        { request_id: 'root', trigger: 'completion', delay_ms: 1 },
        { request_id: 'child', trigger: 'completion' },
      ]),
    ].join('\n')
    const [root, child, join] = parseTrace(text)
    expect(root).toMatchObject({ atMs: 0, inputTokens: 6, blockTokens: 4, sessionId: 'root' })
    expect(root!.hashIds).toHaveLength(2)
    expect(root).not.toHaveProperty('waitsFor')
    expect(child!.waitsFor).toEqual([{ request: 0, on: 'sent', delayMs: 5 }])
    expect(join!.waitsFor).toEqual([
      { request: 0, on: 'ended', delayMs: 1 },
      { request: 1, on: 'ended', delayMs: 0 },
    ])
    // No other request has the second block.
    expect(root!.hashIds[0]).toBe(child!.hashIds[0])
    expect(root!.hashIds[1]).not.toBe(child!.hashIds[1])
  })

  it.each([
    [row('a', [{ request_id: 'b', trigger: 'completion' }]), 'depends on b'],
    [row('a', [{}]), 'depends on'],
    [row('a', 7 as never), 'dependencies'],
    [row('a', [], { not_before_ms: -1 }), 'not_before_ms'],
    [row('a', [], { hash_ids: ['x'] }), 'hash_ids'],
    [row('a', [], { input_length: 0 }), 'input length'],
  ])('%s - names the line and the fault', (text, what) => {
    expect(() => parseTrace(`${header}\n${text}`)).toThrow(new RegExp(`line 2 .*${what}`))
  })

  it('two requests of a graph with one id - are refused, because a dependency would be ambiguous', () => {
    const text = [header, row('a', []), row('a', [])].join('\n')
    expect(() => parseTrace(text)).toThrow(/line 3 .*request_id/)
  })

  it('recordings - the requests that ended, turns with their distances', () => {
    const ended = (receivedMs: number, hash: number, session?: string): string =>
      line({
        schema: 'dynamo.request.trace.v1',
        event_type: 'request_end',
        ...(session === undefined ? {} : { agent_context: { session_id: session } }),
        request: {
          output_tokens: 2,
          request_received_ms: receivedMs,
          total_time_ms: 10,
          replay: { trace_block_size: 4, input_length: 4, input_sequence_hashes: [hash] },
        },
      })
    const text = [
      line({ event_type: 'request_payload', request_id: 'x' }),
      ended(1030, 2 ** 63, 's'),
      ended(1000, 7, 's'),
      ended(1005, 7),
    ].join('\n')
    const requests = parseTrace(text)
    expect(requests.map(({ atMs, hashIds }) => [atMs, hashIds])).toEqual([
      [0, [7]],
      [5, [7]],
      [30, [-1]],
    ])
    expect(requests[2]).toMatchObject({ after: 0, delayMs: 20 })
    expect(() => parseTrace(text.replace('trace_block_size', 'size'))).toThrow('trace_block_size')
  })
})

describe("parseTrace - Baton's log", () => {
  it('uses the requests that ended, at their arrival times', () => {
    const log = [
      line({ level: 30, time: 9000, msg: 'listening' }),
      line({
        level: 30,
        time: 10_500,
        msg: 'request ended',
        durationMs: 500,
        promptTokens: 600,
        completionTokens: 9,
        sessionId: 's',
      }),
      line({
        level: 30,
        time: 10_100,
        msg: 'request ended',
        durationMs: 900,
        promptTokens: 20,
        completionTokens: 1,
      }),
      line({
        level: 30,
        time: 12_000,
        msg: 'request ended',
        durationMs: 100,
        promptTokens: 1200,
        completionTokens: 5,
        sessionId: 's',
      }),
      line({
        level: 30,
        time: 12_000,
        msg: 'request ended',
        durationMs: 100,
        promptTokens: 0,
        completionTokens: 0,
      }),
    ].join('\n')
    const requests = parseTrace(log)
    expect(requests.map(({ atMs, inputTokens }) => [atMs, inputTokens])).toEqual([
      [0, 20],
      [800, 600],
      [2700, 1200],
    ])
    expect(requests[2]!.hashIds.slice(0, 2)).toEqual(requests[1]!.hashIds)
    expect(requests[0]!.hashIds).not.toEqual(requests[1]!.hashIds.slice(0, 1))
    expect(requests[2]).toMatchObject({ after: 1, delayMs: 1400 })
    const overlapping = log.replace(
      '"durationMs":100,"promptTokens":1200',
      '"durationMs":1600,"promptTokens":1200',
    )
    expect(parseTrace(overlapping)[2]).not.toHaveProperty('after')
    expect(parseTrace(`Baton\n  listening, with 2 workers\n${log}`)).toEqual(requests)
    const quiet = `Baton\n  listening\n${line({ level: 40, msg: 'request failed' })}`
    expect(() => parseTrace(quiet)).toThrow('--log-level info')
  })
})

describe('parseTrace - CSV', () => {
  it('columns by the names of the header, or by position', () => {
    expect(
      parseTrace(
        'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.5,10,5\n2023-11-16 18:17:04,20,6',
      ),
    ).toMatchObject([
      { atMs: 0, inputTokens: 10, outputTokens: 5 },
      { atMs: 500, inputTokens: 20, outputTokens: 6 },
    ])
    expect(
      parseTrace('Timestamp,Model,Request tokens,Response tokens\n5,GPT,7,8\n6,GPT,9,1'),
    ).toMatchObject([
      { atMs: 0, inputTokens: 7 },
      { atMs: 1000, inputTokens: 9 },
    ])
    expect(parseTrace('100,3\n600,4')).toMatchObject([{ inputTokens: 100 }, { inputTokens: 600 }])
    expect(parseTrace('10,100,3\n25,600,4')[1]).toMatchObject({ atMs: 15, inputTokens: 600 })
  })

  it('rows out of order - the earliest at 0, distances are kept', () => {
    const vidur = 'arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,100,10\n0.25,200,5\n1,3,4'
    expect(parseTrace(vidur).map(({ atMs, inputTokens }) => [atMs, inputTokens])).toEqual([
      [0, 200],
      [250, 100],
      [750, 3],
    ])
  })

  it('a request without an answer, as in BurstGPT - is skipped', () => {
    const text = 'Timestamp,Model,Request tokens,Response tokens\n5,GPT,7,0\n6,GPT,9,1\n8,GPT,3,2'
    expect(parseTrace(text)).toMatchObject([
      { atMs: 0, inputTokens: 9 },
      { atMs: 2000, inputTokens: 3 },
    ])
  })

  it('commas and quotes inside quotes', () => {
    const text = 'prompt,input,output\n"a, ""b"", c",10,5\nplain,20,6'
    expect(parseTrace(text)).toMatchObject([{ inputTokens: 10 }, { inputTokens: 20 }])
  })

  it.each([
    'Prompt Tokens,Completion_Tokens',
    'input_len,output_len',
    'ISL,OSL',
    'prompt_size,token_size',
    'input_sequence_length,output_sequence_length',
    'num_prompt_tokens,num_completion_tokens',
  ])('%s - names of lengths', (names) => {
    expect(parseTrace(`${names}\n10,5`)).toMatchObject([{ inputTokens: 10, outputTokens: 5 }])
  })

  it.each([';', '\t'])('separator %j - the same cells', (separator) => {
    const rows = [
      ['timestamp', 'input', 'text', 'output'],
      ['1', '10', `"a${separator} b"`, '5'],
      ['2', '20', 'c, d', '0.0'],
      ['3', '30', '', '6.0'],
    ]
    expect(parseTrace(rows.map((cells) => cells.join(separator)).join('\r\n'))).toMatchObject([
      { atMs: 0, inputTokens: 10, outputTokens: 5 },
      { atMs: 2000, inputTokens: 30, outputTokens: 6 },
    ])
  })

  it.each([
    ['1,2,3,4', 'neither two columns'],
    ['a,b\n1,2', 'names no columns'],
    ['input,output\n0,2', 'input length'],
    ['input,output\n5,x', 'output length'],
    ['time,input,output\nsoon,5,6', 'no time'],
  ])('%j - names the line and the fault', (text, what) => {
    expect(() => parseTrace(text, { format: 'csv' })).toThrow(what)
  })
})
