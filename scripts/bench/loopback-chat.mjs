// An instant OpenAI chat-completions server on 127.0.0.1, in its own process so that its CPU time does not count: turn 1 searches, turn 2 answers.
// Prints its port on stdout.
import http from 'node:http';

const reply = (text) =>
  Buffer.from(
    JSON.stringify({
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'instant',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: text } }],
      usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 },
    }),
  );
const replies = [
  reply('<think>I need to look this up.</think>\n<search>who is it</search>'),
  reply('<think>Found.</think>\n<answer>Beijing</answer>'),
];
const models = Buffer.from(JSON.stringify({ object: 'list', data: [{ id: 'instant', object: 'model' }] }));

const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    const send = (status, body) => {
      response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length });
      response.end(body);
    };
    if (request.url === '/v1/models') return send(200, models);
    if (request.url !== '/v1/chat/completions') return send(404, Buffer.from('{"detail":"Not Found"}'));
    send(200, replies[Number(Buffer.concat(parts).includes('"assistant"'))]);
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
