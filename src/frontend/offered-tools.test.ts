import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../test/frontend/scripted-frontend.ts'

const close = {
  type: 'function',
  name: 'close_agent',
  strict: false,
  parameters: { type: 'object', properties: { target: { type: 'string' } } },
}
/** Tools that codex 0.169 sends to every server. */
const TOOLS = [
  { type: 'function', name: 'exec_command', strict: false, parameters: { type: 'object' } },
  { type: 'namespace', name: 'multi_agent_v1', description: 'Agents', tools: [close] },
  { type: 'web_search', external_web_access: false },
]
const CALL = '{"name": "multi_agent_v1__close_agent", "arguments": {"target": "a"}}'
const fields = { model: 'storyteller', input: 'hi', tools: TOOLS }

describe('tools of a coding agent in the Responses API', () => {
  const said = (text: string) =>
    new ScriptedFrontend({
      script: (run) => void run.routed().says(text).ends(),
    })

  it('a namespace - the model gets functions, the client its own names, whole and streamed', async () => {
    const it_ = said(`<tool_call>\n${CALL}\n</tool_call>`)
    const { status, json } = await it_.post('/v1/responses', fields)
    expect(status).toBe(200)
    const call = { type: 'function_call', namespace: 'multi_agent_v1', name: 'close_agent' }
    expect(json.output).toMatchObject([{ ...call, arguments: '{"target": "a"}' }])
    expect(json.tools).toEqual(TOOLS)
    const streamed = await it_.post('/v1/responses', { ...fields, stream: true })
    const events = streamed.writes
      .join('')
      .split('\n')
      .filter((line: string) => line.startsWith('data: {'))
      .map((line: string) => JSON.parse(line.slice(6)) as { type: string; item?: unknown })
    const items = events.filter(({ type }) => type === 'response.output_item.added')
    expect(items[0]?.item).toMatchObject(call)

    const [item] = json.output
    const next = await it_.post('/v1/responses', {
      ...fields,
      input: [
        { role: 'user', content: 'hi' },
        item,
        { type: 'function_call_output', call_id: item.call_id, output: 'closed' },
      ],
    })
    expect(next.status).toBe(200)
  })

  it('an output that belongs to no call - is shown to the model, as codex sends its notices', async () => {
    const it_ = said('hello')
    const notice = {
      type: 'function_call_output',
      id: 'fco_1',
      namespace: 'agent',
      name: 'goal_objective',
      output: 'find the lamp',
    }
    const picture = {
      type: 'image_generation_call',
      id: 'ig_1',
      status: 'completed',
      result: 'AA==',
    }
    const question = { role: 'user', content: 'hi' }
    const without = await it_.post('/v1/responses', { ...fields, input: [question] })
    for (const item of [notice, { ...notice, call_id: null }, { ...notice, id: undefined }]) {
      const { status, json } = await it_.post('/v1/responses', {
        ...fields,
        input: [question, picture, item],
      })
      expect(status).toBe(200)
      expect(json.usage.input_tokens).toBeGreaterThan(without.json.usage.input_tokens)
    }
    const nameless = { ...notice, name: undefined }
    const { status, json } = await it_.post('/v1/responses', { ...fields, input: [nameless] })
    expect([status, json.error.param]).toEqual([400, 'input[0].call_id'])
  })

  it.each([
    ['function_call', { name: 'f', arguments: '{}' }, 'function call'],
    ['custom_tool_call', { name: 'f', input: 'x' }, 'custom tool call'],
  ])(
    'the output of a %s that is not in the input before it - is refused',
    async (type, call, name) => {
      const question = { role: 'user', content: 'hi' }
      const called = { type, call_id: 'call_1', ...call }
      const output = { type: `${type}_output`, call_id: 'call_1', output: 'ok' }
      const post = (input: unknown) => said('hello').post('/v1/responses', { ...fields, input })
      expect((await post([question, called, output])).status).toBe(200)
      for (const input of [
        [question, output],
        [question, { ...called, call_id: 'call_2' }, output],
        [question, output, called],
      ]) {
        const { status, json } = await post(input)
        const at = input.indexOf(output)
        expect([status, json.error.param, json.error.message]).toEqual([
          400,
          `input[${at}].call_id`,
          `No tool call found for ${name} output with call_id call_1.`,
        ])
      }
    },
  )

  it('web search alone - is a request without tools', async () => {
    const it_ = said('hello')
    const tools = [{ type: 'web_search' }]
    expect((await it_.post('/v1/responses', { ...fields, tools })).status).toBe(200)
    const odd = [{ type: 'computer_use' }]
    const { status, json } = await it_.post('/v1/responses', { ...fields, tools: odd })
    expect([status, json.error.param]).toEqual([400, 'tools[0].type'])
  })
})
