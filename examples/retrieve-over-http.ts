/** Queries `vf-serve retrieve` as upstream Search-R1 queries its retrieval server. Needs `npm run build`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const server = spawn(process.execPath, ['bin/vf-serve.js', 'retrieve', '--corpus', 'nq-mini', '--port', '0'], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
try {
  let printed = '';
  let url: string | undefined;
  while (url === undefined) {
    const [chunk] = (await once(server.stdout, 'data')) as [Buffer];
    printed += chunk.toString();
    url = /http:\/\/\S+\/retrieve/.exec(printed)?.[0];
  }
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ queries: ['who got the first nobel prize in physics'], topk: 3, return_scores: true }),
  });
  const { result } = (await response.json()) as { result: { document: { contents: string }; score: number }[][] };
  for (const { document, score } of result[0]!) console.log(score.toFixed(2), document.contents.split('\n')[0]);
  if (result[0]!.length !== 3) process.exitCode = 1;
} finally {
  server.kill('SIGINT');
}
