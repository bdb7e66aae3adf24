/** Names of parsers as people write them: `DeepSeek-R1`, `deepseekv4` and `gemma-4` are what their flag calls them. */

/** The key of a name; `aliases` has the names that vLLM and SGLang use for the same format. */
export function parserKey(name: string, aliases: Readonly<Record<string, string>>): string {
  const key = name.toLowerCase().replaceAll('-', '_')
  return Object.hasOwn(aliases, key) ? (aliases[key] ?? key) : key
}
