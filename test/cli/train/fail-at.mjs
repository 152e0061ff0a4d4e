/**
 * Loaded before a command (`--import`). FAIL_AT is `{match, from, how}` as JSON: from the n-th event on whose text matches, the process is killed (`kill`), the disk is full
 * (`full`) or its server refuses (`refuse`). Events are changes of files, `mkdir PATH`, and requests that a server of the process gets, `POST PATH`.
 */
import fs from 'node:fs';
import { Server } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';

const { match, from, how } = JSON.parse(process.env.FAIL_AT);
const pattern = new RegExp(match);
let seen = 0;
const isFaulty = (text) => {
  if (!pattern.test(text)) return false;
  seen += 1;
  if (process.env.FAIL_LOG) fs.appendFileSync(process.env.FAIL_LOG, `${text}\n`);
  if (seen < from) return false;
  if (how === 'kill') process.kill(process.pid, 'SIGKILL');
  return true;
};

for (const name of ['mkdir', 'open', 'rename', 'writeFile']) {
  const original = fs.promises[name];
  fs.promises[name] = async (path, ...rest) => {
    if (isFaulty(`${name} ${path}`) && how === 'full')
      throw Object.assign(new Error(`ENOSPC: no space left on device, ${name} '${path}'`), { code: 'ENOSPC', errno: -28, path: String(path) });
    return original(path, ...rest);
  };
}
syncBuiltinESMExports();
// oxlint-disable-next-line typescript/unbound-method -- it is called with apply
const { emit } = Server.prototype;
Server.prototype.emit = function (name, request, response) {
  if (name !== 'request' || !isFaulty(`${request.method} ${request.url}`) || how !== 'refuse') return emit.apply(this, arguments);
  request.resume();
  response
    .writeHead(500, { 'content-type': 'application/json' })
    .end(JSON.stringify({ error: { message: 'no memory for this adapter', type: 'InternalServerError', code: 500 } }));
  return true;
};
