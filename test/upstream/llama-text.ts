/** The tokenizer routes of engines that run the bundled model, for raw TCP servers. */
import { loadModelText } from '../../src/host/index.ts'
import { renderChat } from '../../src/text/index.ts'
import type { ModelText } from '../../src/text/index.ts'
import { jsonResponse } from './transcripts.ts'
import type { SeenRequest } from './transcripts.ts'

export const local: ModelText = await loadModelText('models/storyteller')
const { tokenizer } = local
const utf8 = new TextDecoder('utf-8', { fatal: true })

type Json = Record<string, unknown>
export const bodyOf = ({ body }: SeenRequest): Json =>
  JSON.parse(Buffer.from(body, 'latin1').toString()) as Json

function pieceOf(id: number): string | number[] {
  if (tokenizer.isSpecial(id)) return tokenizer.tokenName(id)
  const bytes = tokenizer.tokenBytes(id)
  try {
    return utf8.decode(bytes)
  } catch {
    return [...bytes]
  }
}

/** The tokenizer routes of a llama-server that runs the bundled model. */
export function llamaText(request: SeenRequest): string | undefined {
  const fields = request.method === 'POST' ? bodyOf(request) : {}
  switch (request.path) {
    case '/tokenize': {
      const ids = tokenizer.encode(String(fields['content']), {
        special: fields['parse_special'] === true,
      })
      const isWithPieces = fields['with_pieces'] === true
      const tokens = [...ids].map((id) => (isWithPieces ? { id, piece: pieceOf(id) } : id))
      return jsonResponse(200, { tokens })
    }
    case '/detokenize': {
      const content = tokenizer.decode(fields['tokens'] as number[], { skipSpecialTokens: false })
      return jsonResponse(200, { content })
    }
    case '/apply-template': {
      const messages = fields['messages'] as { role: string; content: string }[]
      const prompt = renderChat(local.template as never, tokenizer, { messages }).text
      return jsonResponse(200, { prompt })
    }
    default:
      return undefined
  }
}
