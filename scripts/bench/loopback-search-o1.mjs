// A chat API and a search server without latency on 127.0.0.1, in a process of its own so that its CPU time does not count: each question of Search-o1
// gets one query, one refinement and one answer, which ends with the token that a real server leaves in the text. Prints its port on stdout.
import http from 'node:http';

const PASSAGE = 'Paris has been the capital of France for most of its history, and is the largest city of the country by far. '.repeat(5);

function answer(prompt) {
  if (prompt.endsWith('<|end_search_result|>')) return 'The pages agree. The answer is \\boxed{Paris}.<|im_end|>';
  if (prompt.includes('**Task Instruction:**')) return '**Final Information**\n\nParis is the capital of France.';
  return 'I have to find this out. <|begin_search_query|>capital of France<|end_search_query|>';
}

function reply(url, body) {
  if (url.endsWith('/search')) {
    const passages = Array.from({ length: body.top_k ?? 5 }, (_, i) => `${i}. ${PASSAGE}`);
    return { ret_psg: body.query_list.map(() => passages) };
  }
  const message = { role: 'assistant', content: answer(body.messages.map(({ content }) => content).join('\n')) };
  const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
  return { id: 'x', object: 'chat.completion', created: 1, model: body.model, choices: [{ index: 0, finish_reason: 'stop', message }], usage };
}

const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    const body =
      request.method === 'GET'
        ? { object: 'list', data: [{ id: 'instant', object: 'model' }] }
        : reply(request.url, JSON.parse(Buffer.concat(parts)));
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
