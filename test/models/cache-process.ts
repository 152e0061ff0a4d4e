/** Asks a cached judge one question after another and prints each that was answered, until it is killed. With `pause` it waits for input after the first. */
import { once } from 'node:events';
import { scriptedModel } from '../../src/core/builtin-judges.ts';
import { openRoleModels } from '../../src/models/role-models.ts';

const [path, pause] = process.argv.slice(2) as [string, string?];
const model = scriptedModel({ replies: (messages) => `reply to ${messages[0]!.content as string}` });
const roles = await openRoleModels(
  { judge: { model, cache: { identity: 'judge', path } } },
  { onNotice: (line) => void process.stdout.write(`notice: ${line}\n`) },
);
const { signal } = new AbortController();
for (let i = 0; ; i++) {
  const question = `question ${i}`;
  await roles.models['judge']!.generate([{ role: 'user', content: question }], { maxTokens: 8, signal });
  process.stdout.write(`${question}\n`);
  if (i === 0 && pause === 'pause') await once(process.stdin, 'data');
  await new Promise(setImmediate);
}
