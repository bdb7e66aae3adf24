/** Request bodies with media, as clients and attackers write them. */
export const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex').toString('base64')
const WAV = Buffer.from('RIFF\x24\0\0\0WAVEfmt ', 'latin1').toString('base64')
export const PDF = Buffer.from('%PDF-1.7\n%\xe2\xe3', 'latin1').toString('base64')
export const CHAT = '/v1/chat/completions'
export const parts = (...content: unknown[]) => ({ messages: [{ role: 'user', content }] })
export const image = (url: string) => parts({ type: 'image_url', image_url: { url } })

export const GOOD: readonly (readonly [string, string, unknown])[] = [
  ['an image of chat', CHAT, image(`data:image/png;base64,${PNG}`)],
  ['in capitals, with a parameter', CHAT, image(`DATA:image/PNG;name=a;base64,${PNG}`)],
  [
    'slashes that are escaped',
    CHAT,
    JSON.stringify(image(`data:image/png;base64,${PNG}`)).replaceAll('/', '\\/'),
  ],
  ['without a type', CHAT, image(`data:;base64,${PNG}`)],
  [
    'audio of chat',
    CHAT,
    parts({ type: 'input_audio', input_audio: { data: WAV, format: 'wav' } }),
  ],
  [
    'raw audio',
    CHAT,
    parts({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'pcm16' } }),
  ],
  [
    'audio as an address',
    CHAT,
    parts({ type: 'audio_url', audio_url: { url: `data:audio/wav;base64,${WAV}` } }),
  ],
  [
    'frames of a video',
    CHAT,
    parts({ type: 'video_url', video_url: { url: `data:video/jpeg;base64,${PNG},${PNG}` } }),
  ],
  [
    'a file of chat',
    CHAT,
    parts({
      type: 'file',
      file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` },
    }),
  ],
  ['a file by its id', CHAT, parts({ type: 'file', file: { file_id: 'file-1' } })],
  [
    'an image of Responses',
    '/v1/responses',
    {
      input: [
        {
          role: 'user',
          content: [{ type: 'input_image', image_url: `data:image/png;base64,${PNG}` }],
        },
      ],
    },
  ],
  [
    'a file of Responses',
    '/v1/responses',
    {
      input: [
        {
          role: 'user',
          content: [{ type: 'input_file', file_data: `data:application/pdf;base64,${PDF}` }],
        },
      ],
    },
  ],
  [
    'an image of Messages',
    '/v1/messages',
    parts({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } }),
  ],
  [
    'a document of Messages',
    '/v1/messages',
    parts({
      type: 'document',
      source: { type: 'base64', media_type: 'application/pdf', data: PDF },
    }),
  ],
  [
    'a document that is text',
    '/v1/messages',
    parts({
      type: 'document',
      source: { type: 'text', media_type: 'text/plain', data: 'see http://a.b!' },
    }),
  ],
  ['what an answer sounded like', CHAT, { messages: [{ role: 'assistant', audio: { id: 'a' } }] }],
  ['a prompt with a colon', '/v1/images/generations', { prompt: 'x', style: 'Note: http' }],
  ['an address in a text', CHAT, parts({ type: 'text', text: 'http://127.0.0.1/' })],
  [
    'an address in what a tool was called with',
    '/v1/messages',
    parts({
      type: 'tool_use',
      id: 't',
      name: 'show',
      input: { content: [{ type: 'image_url', image_url: { url: 'http://a.b/' } }] },
    }),
  ],
  [
    'a schema with such names',
    CHAT,
    {
      messages: [],
      tools: [
        {
          type: 'function',
          function: { parameters: { properties: { image_url: { url: 'http://a.b' } } } },
        },
      ],
    },
  ],
]

export const BAD: readonly (readonly [string, string, unknown, string])[] = [
  ['an address', CHAT, image('http://a.b/c.png'), 'messages[0].content[0].image_url.url'],
  ['https', CHAT, image('https://a.b/c.png'), 'messages[0].content[0].image_url.url'],
  [
    'blanks before it',
    CHAT,
    image(' \n\thttps://a.b/c.png'),
    'messages[0].content[0].image_url.url',
  ],
  [
    'control characters before it',
    CHAT,
    image('\u0001https://a.b/c.png'),
    'messages[0].content[0].image_url.url',
  ],
  ['a file', CHAT, image('file:///etc/passwd'), 'messages[0].content[0].image_url.url'],
  ['another scheme', CHAT, image('s3://bucket/a'), 'messages[0].content[0].image_url.url'],
  ['a path', CHAT, image('/etc/passwd'), 'messages[0].content[0].image_url.url'],
  [
    'a text instead of an object',
    CHAT,
    parts({ type: 'image_url', image_url: 'http://a.b' }),
    'messages[0].content[0].image_url',
  ],
  [
    'no type, only the field',
    CHAT,
    parts({ image_url: { url: 'http://a.b' } }),
    'messages[0].content[0].image_url.url',
  ],
  [
    'another type next to the field',
    CHAT,
    parts({ type: 'text', text: 'x', image_url: { url: 'http://a.b' } }),
    'messages[0].content[0].image_url.url',
  ],
  [
    'escapes in the name of the field',
    CHAT,
    '{"messages":[{"content":[{"type":"image\\u005furl","image\\u005furl":{"u\\u0072l":"\\u0068ttp://a.b"}}]}]}',
    'messages[0].content[0].image_url.url',
  ],
  [
    'a name that occurs twice',
    CHAT,
    '{"messages":[{"content":[{"type":"text","type":"image_url","image_url":{"url":"data:,","url":"http://a.b"}}]}]}',
    'messages[0].content[0].image_url.url',
  ],
  [
    'messages twice',
    CHAT,
    '{"messages":[{"content":[{"image_url":"http://a.b"}]}],"messages":[]}',
    'messages[0].content[0].image_url',
  ],
  ['SVG', CHAT, image(`data:image/svg+xml;base64,${PNG}`), 'messages[0].content[0].image_url.url'],
  ['HTML', CHAT, image('data:text/html;base64,PGh0bWw+'), 'messages[0].content[0].image_url.url'],
  [
    'HTML that says it is an image',
    CHAT,
    image('data:image/png;base64,PGh0bWw+'),
    'messages[0].content[0].image_url.url',
  ],
  [
    'HTML without base64',
    CHAT,
    image('data:image/png,<html>'),
    'messages[0].content[0].image_url.url',
  ],
  [
    'a document as an image',
    CHAT,
    image(`data:image/png;base64,${PDF}`),
    'messages[0].content[0].image_url.url',
  ],
  ['no base64', CHAT, image('data:image/png;base64,***'), 'messages[0].content[0].image_url.url'],
  ['nothing', CHAT, image('data:image/png;base64,'), 'messages[0].content[0].image_url.url'],
  ['no comma', CHAT, image('data:image/png;base64'), 'messages[0].content[0].image_url.url'],
  [
    'an image as audio',
    CHAT,
    parts({ type: 'input_audio', input_audio: { data: PNG, format: 'wav' } }),
    'messages[0].content[0].input_audio.data',
  ],
  [
    'an address as audio',
    CHAT,
    parts({ type: 'input_audio', input_audio: { data: 'http://a.b', format: 'wav' } }),
    'messages[0].content[0].input_audio.data',
  ],
  [
    'an address of audio',
    CHAT,
    parts({ type: 'audio_url', audio_url: { url: 'http://a.b' } }),
    'messages[0].content[0].audio_url.url',
  ],
  [
    'an address of a video',
    CHAT,
    parts({ type: 'video_url', video_url: { url: 'http://a.b' } }),
    'messages[0].content[0].video_url.url',
  ],
  [
    'a list of addresses',
    CHAT,
    parts({ type: 'video', video: [`data:image/png;base64,${PNG}`, 'http://a.b'] }),
    'messages[0].content[0].video[1]',
  ],
  [
    'an image of Responses',
    '/v1/responses',
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'http://a.b' }] }] },
    'input[0].content[0].image_url',
  ],
  [
    'a file of Responses',
    '/v1/responses',
    { input: [{ role: 'user', content: [{ type: 'input_file', file_url: 'http://a.b' }] }] },
    'input[0].content[0].file_url',
  ],
  [
    'what a tool has shown',
    '/v1/responses',
    {
      input: [
        { type: 'function_call', call_id: 'c', name: 'look', arguments: '{}' },
        {
          type: 'function_call_output',
          call_id: 'c',
          output: [{ type: 'input_image', image_url: 'http://a.b' }],
        },
      ],
    },
    'input[1].output[0].image_url',
  ],
  [
    'a screenshot',
    '/v1/responses',
    {
      input: [
        {
          type: 'computer_call_output',
          output: { type: 'computer_screenshot', image_url: 'http://a.b' },
        },
      ],
    },
    'input[0].output.image_url',
  ],
  [
    'an image of Messages',
    '/v1/messages',
    parts({ type: 'image', source: { type: 'url', url: 'http://a.b' } }),
    'messages[0].content[0].source.url',
  ],
  [
    'an image in the result of a tool',
    '/v1/messages',
    parts({
      type: 'tool_result',
      content: [{ type: 'image', source: { type: 'url', url: 'http://a.b' } }],
    }),
    'messages[0].content[0].content[0].source.url',
  ],
  [
    'an image in a document',
    '/v1/messages',
    parts({
      type: 'document',
      source: {
        type: 'content',
        content: [{ type: 'image', source: { type: 'url', url: 'http://a.b' } }],
      },
    }),
    'messages[0].content[0].source.content[0].source.url',
  ],
  [
    'the wrong type of Messages',
    '/v1/messages',
    parts({ type: 'image', source: { type: 'base64', media_type: 'text/html', data: PNG } }),
    'messages[0].content[0].source.data',
  ],
  [
    'an image to embed',
    '/v1/embeddings',
    parts({ type: 'image_url', image_url: { url: 'http://a.b' } }),
    'messages[0].content[0].image_url.url',
  ],
  [
    'an image to rank',
    '/v1/rerank',
    {
      query: 'q',
      documents: { content: [{ type: 'image_url', image_url: { url: 'http://a.b' } }] },
    },
    'documents.content[0].image_url.url',
  ],
  [
    'an image to edit',
    '/v1/images/edits',
    { prompt: 'http://fine.example', images: [{ image_url: 'http://a.b' }] },
    'images[0].image_url',
  ],
  [
    'an image to embed, as SGLang has it',
    '/v1/embeddings',
    { input: [{ text: 'x', image: 'http://a.b' }] },
    'input[0].image',
  ],
  [
    'documents with images',
    '/v1/rerank',
    { query: 'q', documents: ['x', { image: '/etc/passwd.png' }] },
    'documents[1].image',
  ],
  [
    'data for a plugin',
    '/pooling',
    '{"data":{"data":"\\u0068ttps://a.b","data_format":"url"}}',
    'data.data',
  ],
  [
    'a voice',
    '/v1/audio/speech',
    { input: 'http://fine.example', ref_audio: 'http://a.b' },
    'ref_audio',
  ],
]
