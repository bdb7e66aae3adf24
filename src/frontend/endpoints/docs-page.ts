/**
 * `/docs`: the routes as a page without scripts, made from the OpenAPI document.
 */
interface Operation {
  readonly summary?: string
}

export function docsPage(document: Readonly<Record<string, unknown>>): string {
  const paths = (document['paths'] ?? {}) as Readonly<Record<string, Record<string, Operation>>>
  const rows = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(
      ([method, operation]) =>
        `<tr><td>${method.toUpperCase()}</td><td><code>${escapeHtml(path)}</code></td><td>${escapeHtml(operation.summary ?? '')}</td></tr>`,
    ),
  )
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Baton HTTP API</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}td{padding:.2rem 1rem .2rem 0;vertical-align:top}</style>
</head>
<body>
<h1>Baton HTTP API</h1>
<p>All fields with their bounds: <a href="/openapi.json">/openapi.json</a></p>
<table>${rows.join('\n')}</table>
</body>
</html>
`
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
