/** Text of others in all that commands print: colours, cursor movements, bidirectional controls and 8-bit controls in rows, models, servers, names of files and arguments. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runInProcess } from '../cli/in-process.ts';
import { loopback, type Loopback, sendJson } from '../transport/loopback.ts';

/** A style that no command of ours uses, so that it can be told from them; a bidirectional override; CSI as one character; a title. */
const EVIL = 'evil\u001b[5;41mred\u202e\u009b2J\u001b]0;title\u0007\r';
/** What may stand in the name of a file. */
const NAME = EVIL.replaceAll('/', '');
const folder = mkdtempSync(join(tmpdir(), 'vf-terminal-'));
afterAll(() => rmSync(folder, { recursive: true }));

let server: Loopback;
let answerer: (request: IncomingMessage, response: ServerResponse) => void;
beforeAll(async () => {
  server = await loopback((request, response) => answerer(request, response));
  const row = { id: EVIL, question: EVIL, golden_answers: [EVIL] };
  writeFileSync(join(folder, 'rows.jsonl'), `${JSON.stringify(row)}\n`);
  writeFileSync(join(folder, 'corpus.jsonl'), `${JSON.stringify({ id: EVIL, contents: `${EVIL}\n${EVIL}` })}\n`);
  cpSync(join(folder, 'corpus.jsonl'), join(folder, `${NAME}.jsonl`));
  writeFileSync(join(folder, `${NAME}.toml`), `model = "x"\n["${JSON.stringify(EVIL).slice(1, -1)}"]\n`);
  writeFileSync(join(folder, 'pipeline.yaml'), `servers:\n  ${JSON.stringify(EVIL)}: servers/nowhere\npipeline:\n- ${JSON.stringify(`${EVIL}.x`)}\n`);
  mkdirSync(join(folder, NAME));
});
afterAll(() => server[Symbol.asyncDispose]());

const data = () => JSON.stringify({ dataset: join(folder, 'rows.jsonl'), corpus: join(folder, 'corpus.jsonl') });
/** What an evaluation above it has left. */
const runIn = (name: string) => {
  const record = readdirSync(join(folder, name), { recursive: true })
    .map(String)
    .find((path) => path.endsWith('metadata.json'));
  return join(folder, name, dirname(record!));
};
const error = (response: ServerResponse) => sendJson(response, 400, { error: { message: EVIL, code: EVIL } });
const lists = (_: IncomingMessage, response: ServerResponse) => sendJson(response, 200, { object: 'list', data: [{ id: EVIL }, { id: `${EVIL}2` }] });

/** By what prints the text: a command, and how a server that it asks answers. */
const PRINTS: readonly [string, () => readonly [string, readonly string[]], ((q: IncomingMessage, r: ServerResponse) => void)?][] = [
  ['rows in a summary', () => ['vf-eval', ['search-r1', '-a', data(), '-n', '1', '-o', join(folder, `${NAME}e1`)]]],
  ['rows in lines', () => ['vf-eval', ['search-r1', '-a', data(), '-n', '1', '-o', join(folder, 'e2'), '--plain']]],
  ['rows in JSON', () => ['vf-eval', ['search-r1', '-a', data(), '-n', '1', '-o', join(folder, `${NAME}e3`), '--json']]],
  ['a dry run', () => ['vf-eval', ['search-r1', '-a', data(), '-n', '1', '-o', join(folder, 'e4'), '--dry-run']]],
  [
    'the failure of a server',
    () => ['vf-eval', ['search-r1', '-a', data(), '-n', '1', '-o', join(folder, 'e5'), '-b', `${server.url}/v1`, '-m', 'x']],
    (_, r) => error(r),
  ],
  ['the models of a server', () => ['vf-eval', ['search-r1', '-a', data(), '-n', '1', '-o', join(folder, 'e6'), '-b', `${server.url}/v1`]], lists],
  ['the models of a server that the doctor asks', () => ['vf-doctor', ['-b', `${server.url}/v1`]], lists],
  ['the failure of a server that the doctor asks', () => ['vf-doctor', ['-b', `${server.url}/v1`, '--json']], (_, r) => error(r)],
  ['a comparison', () => ['vf-compare', [runIn(`${NAME}e1`), runIn(`${NAME}e3`)]]],
  ['a comparison as JSON', () => ['vf-compare', [runIn(`${NAME}e1`), runIn(`${NAME}e3`), '--json']]],
  ['a comparison as Markdown', () => ['vf-compare', [runIn(`${NAME}e1`), runIn(`${NAME}e3`), '--markdown']]],
  ['a comparison of what is not there', () => ['vf-compare', [join(folder, NAME), join(folder, 'two')]]],
  ['a score', () => ['vf-score', [runIn(`${NAME}e1`), '-o', join(folder, `${NAME}s1`)]]],
  ['a score as JSON', () => ['vf-score', [runIn(`${NAME}e3`), '--json', '-o', join(folder, `${NAME}s2`)]]],
  ['a score of what is not there', () => ['vf-score', [join(folder, NAME)]]],
  ['a pipeline', () => ['vf-pipeline', ['check', join(folder, 'pipeline.yaml')]]],
  ['a pipeline that is not there', () => ['vf-pipeline', ['check', join(folder, `${NAME}.yaml`)]]],
  ['an index', () => ['vf-index', [join(folder, `${NAME}.jsonl`), '-o', join(folder, `index-${NAME}`)]]],
  ['an index as JSON', () => ['vf-index', [join(folder, `${NAME}.jsonl`), '-o', join(folder, `index2-${NAME}`), '--json']]],
  ['an index of what is not there', () => ['vf-index', [join(folder, `${NAME}-x`), '-o', join(folder, 'index3')]]],
  ['a configuration', () => ['vf-train', [join(folder, `${NAME}.toml`), '--dry-run']]],
  ['a configuration of a training', () => ['vf-train', ['search-r1', '--preset', 'laptop', '--name', EVIL, '--show-config']]],
  ['an export of what is not there', () => ['vf-export', [join(folder, NAME), '-o', join(folder, 'export.jsonl')]]],
  ['a view of what is not there', () => ['vf-view', [join(folder, `${NAME}-x`)]]],
  ['a report of rounds', () => ['vf-rounds', ['report', join(folder, NAME)]]],
  ['a run of rounds', () => ['vf-rounds', ['run', join(folder, `${NAME}.toml`), '--dry-run']]],
  ['an environment that nobody has', () => ['vf-eval', [EVIL]]],
  ['a flag that nobody has', () => ['vf-eval', ['search-r1', `--${EVIL}`]]],
  ['arguments that are no JSON', () => ['vf-eval', ['search-r1', '-a', EVIL]]],
  ['an adapter that is not there', () => ['vf-serve', ['policy', '--threads', '1', '--port', '0', '--adapter', `x=${join(folder, NAME)}`]]],
  ['a model that is not there', () => ['vf-serve', ['policy', '--model', join(folder, NAME)]]],
  ['a template for an environment', () => ['vf-init', [EVIL]]],
  ['the help of a command that nobody has', () => ['vf', [EVIL]]],
];

describe('commands that print text of others', () => {
  it.each(PRINTS)('escape all that a terminal acts on in %s', async (_what, command, answer) => {
    answerer = answer ?? lists;
    const [name, args] = command();
    const { stdout, stderr } = await runInProcess(name, args, { cwd: folder, env: { FORCE_COLOR: '1' } });
    const printed = stdout + stderr;
    expect(printed).toContain('evil');
    // oxlint-disable-next-line no-control-regex -- control characters are what this is about
    expect(printed.match(/\u001b\[5;41m|\u001b\]|[\u0007\u009b\u202e]/g)).toBeNull();
  });
});
