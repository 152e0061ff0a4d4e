/** Mistakes of the command line: one line with what was expected and what was got, exit code 2, and nothing written. */
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TemporaryFolder } from './eval/temporary-folder.ts';
import { runInProcess } from './in-process.ts';

/** A file, a corpus, an empty folder, a folder in which `train` is a file, and a link to itself: root may do anything, but not write under a file or read such a link. */
async function misuse(name: string, args: readonly string[]) {
  using folder = new TemporaryFolder();
  folder.write('file', 'hi\n');
  folder.write('corpus.jsonl', '{"id": "1", "contents": "Title\\ntext"}\n');
  for (const empty of ['empty', 'taken']) mkdirSync(join(folder.path, empty));
  folder.write('taken/train', '');
  symlinkSync('circle', join(folder.path, 'circle'));
  const names = () => readdirSync(folder.path, { recursive: true, encoding: 'utf8' }).toSorted();
  const before = names();
  const { code: status, stdout, stderr } = await runInProcess(name, args, { cwd: folder.path, env: {} });
  expect(names()).toEqual(before);
  return { status, stdout, stderr };
}

/** The corpus of nq-mini takes longer to read. */
const WORLD = ['-a', '{"dataset": "fact-world", "corpus": "fact-world"}'];

const CASES: [command: string, args: string[], line: RegExp][] = [
  ['vf', [''], /<command> is empty; vf --help lists the commands/],
  ['vf-rounds', [' ', '--help'], /<command> is empty; vf-rounds --help lists the commands/],
  ['vf-train', ['search-r1', '--preset', 'laptop', '--allow-changes'], /--allow-changes needs -R/],
  [
    'vf-train',
    ['search-r1', '--preset', 'laptop', '-o', 'taken'],
    /^(?!.*resume it)vf-train: Cannot create the run's folder .*taken.*train is not a folder; choose another output folder/,
  ],
  ['vf-train', ['serch-r1'], /The environment "serch-r1" is unknown; .*visual-rag \(did you mean search-r1\?\)\./],
  ['vf-train', ['search-r1', ...WORLD], /No model is named; set model\.path \(-m\)/],
  ['vf-train', ['search-r1', '--preset', 'laptop', '--rollouts', 'gone.jsonl'], /The file .*gone\.jsonl does not exist/],
  ['vf-train', ['search-r1', '--preset', 'laptop', '--rollouts', 'corpus.jsonl'], /Line 1 of .*corpus\.jsonl is not an exported rollout/],
  ['vf-train', ['-R', 'empty'], /it has no run\.json; name the folder that vf-train printed/],
  [
    'vf-eval',
    ['search-r1', ...WORLD, '-n', '1', '-o', 'file'],
    /Could not make the run directory .*file is not a folder\. Choose another output folder/,
  ],
  ['vf-compare', ['empty', 'empty'], /it has no metadata\.json\. Name the results folder that vf-eval printed/],
  [
    'vf-serve',
    ['policy', '--port', '0', '--chat-template', 'gone'],
    /Cannot read the file of --chat-template gone: no such file or directory \(ENOENT\)/,
  ],
  ['vf-train', ['search-r1', '--preset', 'laptop', '--dry-run', '-m', './Qwen/Qwen3-0.6B'], /The directory .\/Qwen\/Qwen3-0\.6B does not exist/],
  ['vf-index', ['corpus.jsonl', '-o', 'file/index'], /Cannot create the folder file\/index \(-o\): not a directory \(ENOTDIR\)/],
  ['vf-index', ['corpus.jsonl', '-o', ''], /-o needs a value: folder to create/],
  ['vf-index', ['corpus.jsonl', '-o', 'index', '--k1', 'abc'], /--k1 must be a number of at least 0, got "abc"/],
  ['vf-index', ['circle', '-o', 'index'], /Cannot read the corpus circle: too many symbolic links encountered \(ELOOP\)/],
  ['vf-serve', ['policy', '--host', '', '--port', '0'], /--host needs a value: address to listen on/],
  ['vf-serve', ['policy', '--allow-adapters-under', '', '--port', '0'], /--allow-adapters-under needs a value: requests may load/],
  ['vf-init', ['my-env', '--dir', 'file/below'], /Cannot create the folder file\/below: not a directory \(ENOTDIR\)/],
  ['vf-export', ['empty', '-o', ''], /-o needs a value: file to write/],
  ['vf-serve', ['policy', '--threads', '65', '--port', '0'], /--threads must be an integer from 1 to 64, got 65/],
  ['vf-serve', ['policy', '--allow-adapters-under', 'file', '--port', '0'], /--allow-adapters-under must name a folder, but file is not one/],
  ['vf-eval', ['search-r1', ...WORLD, '-p', 'embedded', '-m', 'file'], /The directory file does not exist\. With -p embedded, -m must name/],
];

const LONG = 'n'.repeat(300);
const NOT_THERE = /(does not exist|no such |is not a folder|is not a program|holds no run|cannot be created|there is no )/i;
const OF_SYSTEM: Readonly<Record<string, RegExp>> = {
  empty: /it is a folder|is a folder|is a directory|is not a (run directory|program)|has no |no such /i,
  circle: /too many symbolic links encountered \(ELOOP\)/,
  [LONG]: /name too long \(ENAMETOOLONG\)/,
  'file/below': /not a directory \(ENOTDIR\)/,
};
/** Where a command takes a path: nothing that Node says of it reaches the user. */
const PATHS: readonly (readonly [command: string, ...words: string[]])[] = [
  ['vf-pipeline', 'run', 'PATH'],
  ['vf-pipeline', 'check', 'PATH'],
  ['vf-eval', 'search-r1', ...WORLD, '-R', './PATH'],
  ['vf-eval', 'search-r1', ...WORLD, '-n', '1', '-p', 'embedded', '-m', './PATH'],
  ['vf-eval', 'search-r1', '-a', JSON.stringify({ dataset: './PATH', corpus: 'fact-world' }), '-p', 'baseline'],
  ['vf-train', '-R', 'PATH'],
  ['vf-train', 'search-r1', '--preset', 'laptop', '--dry-run', '-m', './PATH'],
  ['vf-train', 'search-r1', '--preset', 'laptop', '--rollouts', 'PATH'],
  ['vf-train', 'search-r1', '--preset', 'laptop', '--dry-run', '--set', 'model.initial_adapter="PATH"'],
  ['vf-compare', 'PATH', 'PATH'],
  ['vf-export', 'PATH', '-o', '-'],
  ['vf-score', 'PATH'],
  ['vf-index', 'PATH', '-o', 'index'],
  ['vf-rounds', 'report', 'PATH'],
  ['vf-rounds', 'extract', '--trace', 'PATH', '-o', 'rows.jsonl'],
  ['vf-view', 'PATH', '--export', '-'],
  ['vf-serve', 'policy', '--model', './PATH', '--port', '0'],
  ['vf-serve', 'policy', '--chat-template', 'PATH', '--port', '0'],
  ['vf-serve', 'environment', 'search-r1', ...WORLD, '--tokenizer', 'PATH', '--port', '0'],
  ['vf-serve', 'execute', '--executor', 'none', '--python', './PATH', '--port', '0'],
];

describe.each(Object.keys(OF_SYSTEM))('the path %s', (path) => {
  it.each(PATHS)('is refused in one line and plain words by %s %s %s %s', async (name, ...words) => {
    const args = words.map((word) => word.replace('PATH', path));
    const { status, stderr } = await misuse(name, args);
    expect({ status, lines: stderr.trimEnd().split('\n').length }).toEqual({ status: 2, lines: 1 });
    expect(stderr).not.toMatch(/\bE[A-Z]{4,}: |, (stat|open|read|scandir|mkdir)\b/);
    expect(stderr).toMatch(new RegExp(`${OF_SYSTEM[path]!.source}|${NOT_THERE.source}`, 'i'));
  });
});

describe('a mistake', () => {
  it.each(CASES)('is reported in one line, with exit code 2, and nothing is written: %s %j', async (name, args, line) => {
    const { status, stdout, stderr } = await misuse(name, args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(line);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(stderr.startsWith(`${name}: `)).toBe(true);
  });
});
