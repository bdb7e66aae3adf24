import { describe, expect, it } from 'vitest'
import { isReasoningParser } from './reasoning-formats.ts'
import { isToolCallParser } from './tool-formats.ts'

/** What the registries of vLLM 0.33 and SGLang 0.5.23 list. */
const TOOL_NAMES = `
apertus apertus2509 beam cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41
deepseekv3 deepseekv31 deepseekv32 deepseekv4 deepseekv41 dots ernie45 functiongemma gemma4 gigachat3 gigachat35 glm glm45 glm47
gpt-oss granite granite-20b-fc granite4 hermes hf hunyuan hunyuan_a13b hy_v3 hy_v4 inkling internlm interns1 iquest_q1 jamba
k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3 llama3_json llama4_json llama4_pythonic longcat mimo minicpm5 minimax-m2 minimax-m3
minimax_m2 minimax_m3 mistral muse muse_glimmer musespark1x nanbeige olmo3 openai phi4_mini_json plamo3 poolside_v1 pythonic qwen qwen25
qwen3_coder qwen3_json qwen3_xml response_template seed_oss spark25 step3 step3p5 step5 trinity xlam`
const REASONING_NAMES = `
apertus2509 beam cohere_command3 cohere_command4 deepseek-r1 deepseek-v3 deepseek-v4 deepseek-v41 deepseek_r1 deepseek_v3
deepseek_v4 deepseek_v41 dots ernie45 gemma4 gigachat35 glm45 glm47 gpt-oss granite granite_thinking_parser hf holo2 hunyuan
hunyuan_a13b hy_v3 hy_v4 inkling interns1 iquest_q1 k2_horizon kimi kimi_k2 kimi_k3 ling3 mimo minicpmv minimax
minimax-append-think minimax-m3 minimax_m2 minimax_m2_append_think minimax_m3 mistral muse muse_glimmer musespark1x nanbeige nemotron_3
nemotron_v3 olmo3 openai_gptoss plamo3 poolside_v1 qwen3 qwen3-thinking response_template seed_oss step3 step3p5
step5`
/** docs/http-api.md says why. */
const REFUSED_TOOLS = ['beam', 'hf', 'response_template']
const REFUSED_REASONING = ['beam', 'hf', 'response_template']

const words = (text: string) => text.trim().split(/\s+/)

describe('names of vLLM and SGLang', () => {
  it('tool-call parsers - all names are accepted except those listed in the docs', () => {
    const refused = words(TOOL_NAMES).filter((name) => !isToolCallParser(name))
    expect(refused).toEqual(REFUSED_TOOLS)
  })

  it('reasoning parsers - all names are accepted except those listed in the docs', () => {
    const refused = words(REASONING_NAMES).filter((name) => !isReasoningParser(name))
    expect(refused).toEqual(REFUSED_REASONING)
  })

  it('unknown names - are refused', () => {
    for (const name of ['nobody', 'hermes:opensource', '', 'toString', 'hy_v3:', 'constructor']) {
      expect([name, isToolCallParser(name), isReasoningParser(name)]).toEqual([name, false, false])
    }
  })
})
