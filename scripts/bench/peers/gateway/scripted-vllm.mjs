// Answers at once like vLLM: chat completions with token ids and log-probs where they are asked for, completions by token ids. In its own process, so that its CPU time does not count.
// Prints its port on stdout.
import http from 'node:http';

const TOKENS = 100;
const ids = Array.from({ length: TOKENS }, (_, i) => 100 + i);
const token = ' a';
const text = token.repeat(TOKENS);
const usage = { prompt_tokens: 100, completion_tokens: TOKENS, total_tokens: 100 + TOKENS };
const content = ids.map((id) => ({ token, logprob: -id / 300, bytes: [32, 97], top_logprobs: [] }));
const models = JSON.stringify({ object: 'list', data: [{ id: 'scripted', object: 'model', max_model_len: 1_000_000 }] });
const completion = JSON.stringify({
  id: 'cmpl-0',
  object: 'text_completion',
  model: 'scripted',
  usage,
  choices: [
    {
      index: 0,
      text,
      finish_reason: 'stop',
      stop_reason: null,
      token_ids: ids,
      logprobs: {
        text_offset: ids.map((_, i) => 2 * i),
        token_logprobs: ids.map((id) => -id / 300),
        tokens: ids.map(() => token),
        top_logprobs: ids.map(() => ({})),
      },
      prompt_token_ids: [],
    },
  ],
});
const [beforeIds, afterIds] = completion.split('"prompt_token_ids":[]');

function chat(body) {
  const { messages, return_token_ids: withIds = false, logprobs = false } = JSON.parse(body);
  const prompt = withIds ? { prompt_token_ids: Array.from({ length: Math.ceil(JSON.stringify(messages).length / 4) }, (_, i) => i % 1500) } : {};
  return JSON.stringify({
    id: 'chatcmpl-0',
    object: 'chat.completion',
    created: 1,
    model: 'scripted',
    usage,
    ...prompt,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: text },
        finish_reason: 'stop',
        logprobs: logprobs ? { content } : null,
        ...(withIds ? { token_ids: ids } : {}),
      },
    ],
  });
}

function completed(body) {
  const start = body.indexOf('"prompt":[') + 10;
  return `${beforeIds}"prompt_token_ids":[${body.slice(start, body.indexOf(']', start))}]${afterIds}`;
}

const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    const body = Buffer.concat(parts).toString();
    const reply = {
      '/health': () => '{}',
      '/v1/models': () => models,
      '/v1/chat/completions': () => chat(body),
      '/v1/completions': () => completed(body),
    }[request.url];
    response.writeHead(reply === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(reply === undefined ? '{"detail":"Not Found"}' : reply());
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
