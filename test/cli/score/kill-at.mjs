/** Loaded before a command (`NODE_OPTIONS=--import`): kills the process at the n-th change of a file, n being KILL_AT. A written line is on file when the kill comes, any other change is not. */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

let left = Number(process.env.KILL_AT);
const count = () => {
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
};

for (const name of ['cp', 'mkdir', 'rename', 'rm', 'unlink', 'writeFile']) {
  const original = fs.promises[name];
  fs.promises[name] = (...words) => {
    count();
    return original(...words);
  };
}
const { writeSync } = fs;
fs.writeSync = (...words) => {
  const written = writeSync(...words);
  if (words[0] > 2) count();
  return written;
};
syncBuiltinESMExports();
