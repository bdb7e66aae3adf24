/**
 * Options of engines at an address: served by a gateway (`--upstream`), or beside a worker (`--engine-url`).
 */
import { UPSTREAM_KINDS, upstreamsOf } from '../../upstream/index.ts'
import type { UpstreamSpec } from '../../upstream/index.ts'
import { spec } from './option-spec.ts'
import { amount, byteSize, count, flag, text, textOrList } from './option-values.ts'

/** `upstream`: a server at an address whose kind is detected. */
export const ENGINE_NAMES = ['llamacpp', 'sim', 'upstream', ...UPSTREAM_KINDS] as const

export const UPSTREAM_OPTIONS = [
  spec(
    'upstream',
    'upstream',
    '<list>',
    textOrList,
    null,
    'serve the engines at these addresses instead of own workers: http://a:8000,http://b:8000, or prefill=http://…,decode=http://…; vllm+http://… names the kind, dns+http://name:8000 uses every address of the name',
  ),
  spec(
    'upstream',
    'upstreamFile',
    '<path>',
    text,
    null,
    'file with more upstreams (YAML, JSON, or one address per line), reloaded when it changes',
  ),
  spec(
    'forwarding',
    'forward',
    '',
    flag,
    false,
    "forward every request unchanged to the upstreams and return their answers unchanged, without Baton's tokenizer and parsers; routing by text, or by tokens with --model",
  ),
  spec(
    'forwarding',
    'mediaHosts',
    '<list>',
    text,
    null,
    'hosts from which media of forwarded requests (image, audio and document URLs) may be fetched, by Baton, into the request: images.example.com, *.example.com, host:8443 or *; never from private addresses; default: requests with such URLs are refused',
  ),
  spec(
    'forwarding',
    'mediaLimit',
    '<size>',
    byteSize,
    20 * 1024 ** 2,
    'largest image, audio or document of a forwarded request',
  ),
  spec(
    'sidecar',
    'engineUrl',
    '<url>',
    text,
    null,
    'address of the foreign server that --engine names, for example http://127.0.0.1:8000',
  ),
  {
    ...spec(
      'upstream engine',
      'engineKey',
      '<key>',
      text,
      null,
      'API key for the upstream (prefer the variable BATON_ENGINE_KEY, because other users of the machine can see flags)',
    ),
    isSecret: true,
  },
  spec(
    'upstream engine',
    'engineRequests',
    '<n>',
    count(1, 65_536),
    1024,
    'most requests in flight at one upstream; further ones are refused',
  ),
  spec(
    'upstream engine',
    'engineMaxNumSeqs',
    '<n>',
    count(1, 65_536),
    null,
    'most requests that one rank of an upstream computes at the same time, so that further ones wait in the router: the value of --max-num-seqs of vLLM; default: what the server reports (llama-server, SGLang), otherwise it is learned',
  ),
  spec(
    'upstream engine',
    'engineIdleSeconds',
    '<s>',
    amount(1, 86_400),
    120,
    'how long an upstream may send nothing during an answer before it is a timeout',
  ),
  spec(
    'sidecar',
    'engineKvEvents',
    '<list>',
    text,
    null,
    "address of the engine's KV events, if it does not announce it: tcp://host:5557, with ;tcp://host:5558 for its replay port; ranks separated by commas",
  ),
  spec(
    'upstream engine',
    'engineAnswerSeconds',
    '<s>',
    amount(1, 86_400),
    300,
    'how long an upstream may take until the first byte of an answer before it is a timeout',
  ),
  spec(
    'upstream engine',
    'slotSavePath',
    '<folder>',
    text,
    null,
    "the folder of llama-server's --slot-save-path, shared by prefill and decode servers; KV is transferred in files there",
  ),
]

/** The value of the option `upstream`; a list in `baton.yaml` was converted to JSON. */
export function namedUpstreams(written: string | null): readonly UpstreamSpec[] {
  return upstreamsOf(written?.startsWith('[') === true ? JSON.parse(written) : written)
}
