/**
 * `baton explain <id>`: asks a running server why a request ran on its worker.
 */
import { EXIT_FAILED } from '../../host/index.ts'
import { askServer } from './ask-server.ts'
import { explainText } from './explain-text.ts'
import type { Explained } from './explain-text.ts'

export async function runExplain(requestId: string, url: string, asJson: boolean): Promise<number> {
  const path = `/debug/requests/${encodeURIComponent(requestId)}`
  const { status, body } = await askServer(url, path)
  if (status !== 200) {
    const { error } = body as { readonly error?: { readonly message?: string } }
    console.error(`baton: ${error?.message ?? `the server answered ${status}`}`)
    return EXIT_FAILED
  }
  console.log(asJson ? JSON.stringify(body, null, 2) : explainText(body as Explained))
  return 0
}
