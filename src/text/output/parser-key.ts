/** Names of parsers as people write them: `DeepSeek-R1`, `deepseekv4` and `gemma-4` are what their flag calls them. */
const ALIASES: Readonly<Record<string, string>> = {
  deepseekv3: 'deepseek_v3',
  deepseekv4: 'deepseek_v4',
  gemma_4: 'gemma4',
}

export function parserKey(name: string): string {
  const key = name.toLowerCase().replaceAll('-', '_')
  return Object.hasOwn(ALIASES, key) ? (ALIASES[key] ?? key) : key
}
