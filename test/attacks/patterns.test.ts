/** No pattern of the package takes more than linear time on the text of a stranger: V8 matches by trying, and on one thread. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseSync, Visitor } from 'oxc-parser';
import { analyse } from 'scslre';
import { describe, expect, it } from 'vitest';
import { lastLiteralBaseline } from '../../environments/self-play-code/baseline.ts';
import { leftToolCalls } from '../../src/core/left-tool-calls.ts';
import { withoutNonFinite } from '../../src/core/finite-json.ts';
import { pythonCalls } from '../../src/core/python-calls.ts';
import { Random } from '../../src/core/random.ts';
import { serverRoot, withoutTrailingSlashes } from '../../src/core/server-url.ts';
import { readGoldenAnswers } from '../../src/schemas/golden-answers.ts';
import { refusedBy } from '../../src/schemas/key-refusal.ts';
import { onOneLine } from '../../src/schemas/on-one-line.ts';
import { PythonTemplate } from '../../src/tokenizer/python-template.ts';
import { parsedRecord } from '../../src/viewing/rollout-reader.ts';

const root = join(import.meta.dirname, '../..');

/** Patterns that are reported, as `file: source`, and why none can take long. */
const ALLOWED: Readonly<Record<string, string>> = {
  'src/cli/unexpected-end.ts: ((?:file:\\/\\/)?\\/[^()]*?)(?:\\?[^:)]*)?:\\d+:\\d+\\)?$': 'a frame of at most 500 characters',
  'src/cli/unexpected-end.ts: ^\\s+at .*\\d+:\\d+\\)?$': 'a frame of at most 500 characters',
  'src/clients/prompt-length-error.ts: <[^>]*>': 'the text is cut at 4,000 characters',
  'src/core/count-text.ts: \\B(?=(\\d{3})+$)': 'the digits of a number',
  'src/core/left-tool-calls.ts: ^\\s*([\\w.-]+)\\s*\\n```(?:json)?\\s*([^]*?)(?:```|$)': 'the end always matches',
  'src/core/left-tool-calls.ts: ^\\s*call:([\\w.-]+)\\s*([^]*)$': 'the end always matches',
  'src/core/python-calls.ts: ("""[^]*?"""|\'\'\'[^]*?\'\'\'|"(?:\\\\.|[^"\\\\])*"|\'(?:\\\\.|[^\'\\\\])*\')|[()[\\]{},=]|(?:\\\\.|[^()[\\]{},=\'"\\\\])+|\\\\':
    'an escaped quote begins no string',
  'environments/self-play-code/baseline.ts: \\\\[\'"\\\\]|\'(?:[^\'\\\\\\n]|\\\\.)*\'|"(?:[^"\\\\\\n]|\\\\.)*"|-?\\d+(?:\\.\\d+)?':
    'an escaped quote begins no string',
  'src/tokenizer/python-tokens.ts: \'(?:\\\\.|[^\'\\\\])*\'|"(?:\\\\.|[^"\\\\])*"': 'every string of a tag has an end',
  'src/files/input-digests.ts: [?#].*$': 'the end always matches',
  'src/files/parquet-values.ts: 0+$': 'the digits of a number',
  'src/tokenizer/pattern-risk.ts: \\\\[\\s\\S]|\\[(?:\\\\[\\s\\S]|[^\\]\\\\])*\\]|\\((?:\\?(?:[:=!>]|<[=!]|<\\w+>|[a-z-]+:))?|\\)|\\||[*+?]|\\{\\d+(?:,\\d*)?\\}|[\\s\\S]':
    'a pattern has at most 10,000 characters there',
  'src/tokenizer/pattern-risk.ts: ^\\{(\\d+)(,?)(\\d*)\\}$': 'the text is a quantifier, so it matches',
  'src/tokenizer/python-format.ts: 0+$': 'the digits of a number',
  'src/tokenizer/python-format.ts: \\B(?=(?:\\d{3})+$)': 'the digits of a number',
  'src/transport/quotes.ts:  ?\\u{f0a5e}[^\\u{f0a5f}]*(?:\\u{f0a5f}|$)': 'the end always matches',
  'src/cli/init/init-environment.ts: (?<=.)\\/+$': 'an argument of the command',
  'src/cli/options/parse-words.ts: =.*$': 'the end always matches',
  'src/cli/options/render-help.ts: ^\\n+|\\n+$': "the package's own help",
  'src/cli/score/score-from-options.ts: (?<=.)\\/+$': 'an argument of the command',
  'src/pipelines/servers/prompt-server.ts: \\([^)]*\\)|;.*': "the description of the package's own tool",
  'src/reports/evaluation/render-transcript.ts: <[^>]*(?:>|$)': 'the end always matches',
  'src/retrieval/dense/embedding-prefixes.ts: [/\\\\]+$': "the name of the user's model",
  'src/transport/shown-words.ts: ^([^=:\\s]+)(=|:\\s+)(.*)$': 'the end always matches',
  'src/sessions/training/training-dry-run.ts: =(.*)$': 'an argument of the command',
  'src/schemas/run-name.ts: [/\\\\]+$': "a path of the user's configuration",
  'src/trainer/records/step-advantages.ts: (step-\\d+)[^/\\\\]*?\\.jsonl(?:\\.thin)?((?:\\.gz)?)$': 'the name of a file',
  'environments/grpo-000/config.ts: [/\\\\]+$': "the name of the user's model",
  'environments/grpo-000/config.ts: qwen[-_ ]?3(?:[._p]\\d+(?![\\d.]*b\\b))?': "the name of the user's model",
  'src/core/repeated-key.ts: ("(?:[^"\\\\]|\\\\.)*")(\\s*:)?|[{}[\\]]': 'the text is JSON, so every string ends',
  'src/clients/vllm-image-probe.ts: "message":\\s*("(?:[^"\\\\]|\\\\.)*")': 'no string holds the bare quotes with which a match begins',
};

/** A quoted string with escapes: without an end, each escaped quote begins another try. scslre does not report it. */
const ESCAPES = /(["'])\(\?:(?:\[\^\1[^\]]*\]\|\\\\[^)]*|\\\\[^|]*\|\[\^\1[^\]]*\])\)\*\1/;

/** True if the pattern can take more than linear time. */
function isSlow(source: string, flags: string): boolean {
  if (!/[*+]|,\}/.test(source)) return false;
  return (!flags.includes('y') && ESCAPES.test(source)) || analyse({ source, flags }, { maxReports: 1 }).reports.length > 0;
}

/** Source and flags of every pattern that a file writes, in the order in which they stand. */
function patternsOf(path: string): readonly (readonly [source: string, flags: string])[] {
  const found: (readonly [string, string])[] = [];
  const module = moduleAt(path);
  const built = ({ callee, arguments: [source, flags] }: { readonly callee: Node; readonly arguments: readonly Node[] }) => {
    if (callee.name !== 'RegExp' || source === undefined) return;
    const text = textOf(source, module);
    if (UNSEEN.test(text))
      throw new Error(
        `${path} builds a pattern whose source the test does not see. Write it where RegExp is called, or in a constant of the module.`,
      );
    found.push([text, flags === undefined ? '' : textOf(flags, module)]);
  };
  new Visitor({
    Literal: (node) => {
      if ('regex' in node) found.push([node.regex.pattern, node.regex.flags]);
    },
    NewExpression: built as (node: object) => void,
    CallExpression: built as (node: object) => void,
  }).visit(module.program as Program);
  return found;
}

interface Node {
  readonly type: string;
  readonly name?: string;
  readonly [field: string]: unknown;
}
type Program = ReturnType<typeof parseSync>['program'];

interface Module {
  readonly path: string;
  readonly program: object;
  /** What stands behind `const NAME =`, wherever in the module, and the modules of imported names. */
  readonly constants: ReadonlyMap<string, Node>;
  readonly imported: ReadonlyMap<string, string>;
}

/** Stands for what only a run knows, such as the names of tools. */
const PART = '\u4e00';
/** One for each name, so that parts that stand next to each other differ, as a tag and white space do. */
const partFor = (name: string) => String.fromCodePoint(Array.from(name).reduce((sum, character) => sum + character.codePointAt(0)!, 0x4e01));
const UNSEEN = /^[\u4e00-\u9fff]?$/;

const modules = new Map<string, Module>();
function moduleAt(path: string): Module {
  const known = modules.get(path);
  if (known !== undefined) return known;
  const { program } = parseSync(path, readFileSync(join(root, path), 'utf8'));
  const constants = new Map<string, Node>();
  const imported = new Map<string, string>();
  new Visitor({
    VariableDeclarator: ({ id, init }) => {
      if (id.type === 'Identifier' && init !== null) constants.set(id.name, init as unknown as Node);
    },
    ImportDeclaration: ({ source, specifiers }) => {
      if (source.value.startsWith('.')) for (const { local } of specifiers) imported.set(local.name, join(dirname(path), source.value));
    },
  }).visit(program);
  const module = { path, program, constants, imported };
  modules.set(path, module);
  return module;
}

/** The text that an expression gives, with PART for each part that the module does not write. */
function textOf(node: Node, module: Module): string {
  const within = (each: unknown) => textOf(each as Node, module);
  switch (node.type) {
    case 'Literal':
      return 'regex' in node ? (node['regex'] as { pattern: string }).pattern : String(node['value']);
    case 'TemplateLiteral':
      return joined(node, 'cooked', within);
    case 'TaggedTemplateExpression':
      return joined(node['quasi'] as Node, 'raw', within);
    case 'BinaryExpression':
      return within(node['left']) + within(node['right']);
    case 'MemberExpression':
      return (node['property'] as Node).name === 'source' ? within(node['object']) : memberText(node, module);
    case 'CallExpression':
      return callText(node, within);
    case 'Identifier':
      return constantText(node.name!, module);
    default:
      return PART;
  }
}

function joined({ quasis, expressions }: Node, kind: 'raw' | 'cooked', within: (node: unknown) => string): string {
  const parts = expressions as readonly Node[];
  return (quasis as { value: { raw: string; cooked: string } }[])
    .map(({ value }, i) => value[kind] + (i < parts.length ? within(parts[i]) : ''))
    .join('');
}

/** Of `NAMES.input`, where the module writes the object. */
function memberText({ object, property }: Node, module: Module): string {
  const { properties = [] } = (module.constants.get(String((object as Node).name)) ?? {}) as { properties?: readonly { key: Node; value: Node }[] };
  const found = properties.find(({ key }) => key.name === (property as Node).name);
  return found === undefined ? PART : textOf(found.value, module);
}

/** Of `list.map((each) => …).join('|')`, of which two stand for all, and of `text.replace('a', 'b')`. */
function callText({ callee, arguments: given }: Node, within: (node: unknown) => string): string {
  const { object, property } = callee as { readonly object?: Node; readonly property?: Node };
  const [first, second] = given as readonly (Node | undefined)[];
  if (property?.name === 'join') return [1, 2].map(() => elementText(object!, within)).join(within(first));
  const isReplaced = property?.name?.startsWith('replace') === true && first?.type === 'Literal' && !('regex' in first);
  return isReplaced ? within(object).replaceAll(within(first), within(second)) : PART;
}

function elementText({ callee, arguments: given }: Node, within: (node: unknown) => string): string {
  const [each] = (given ?? []) as readonly (Node | undefined)[];
  return (callee as { property?: Node } | undefined)?.property?.name === 'map' && each?.type === 'ArrowFunctionExpression'
    ? within(each['body'])
    : PART;
}

function constantText(name: string, module: Module): string {
  const init = module.constants.get(name);
  if (init !== undefined) return textOf(init, module);
  const from = module.imported.get(name);
  return from === undefined ? partFor(name) : constantText(name, moduleAt(from));
}

/** A slash that divides nothing, ends no comment and is no part of a path; a tenth of the time of reading the module as a program. */
function mayHavePatterns(path: string): boolean {
  return /RegExp|(?:^|[^\w)\]./*<'"`])\/(?![/*])/m.test(readFileSync(join(root, path), 'utf8'));
}

function slowPatterns(): string[] {
  const known = new Map<string, boolean>();
  const files = ['src', 'environments'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
  );
  // AssemblyScript has no patterns.
  const written = files.filter((path) => path.endsWith('.ts') && !path.includes(join('kernels', 'assembly')) && mayHavePatterns(path));
  return written.flatMap((path) =>
    patternsOf(path).flatMap(([source, flags]) => {
      const key = `/${source}/${flags}`;
      const slow = known.get(key) ?? isSlow(source, flags);
      known.set(key, slow);
      return slow ? [`${path.replaceAll('\\', '/')}: ${source}`] : [];
    }),
  );
}

describe('the patterns of the package', () => {
  it('are all linear, but for those over short or own text', () => {
    expect([...new Set(slowPatterns())].toSorted()).toEqual(Object.keys(ALLOWED).toSorted());
  });
});

const MANY = 1_000_000;
const quotes = `"${'\\"'.repeat(MANY)}`;

/** The replaced patterns would take hours for each. */
describe('a million characters that match by halves', () => {
  it('are no JSON, at once', () => {
    expect(withoutNonFinite(quotes)).toBe(quotes);
    expect(() => parsedRecord(`{"a": NaN, "b": ${quotes}`)).toThrow('not JSON');
  });

  it('are no call of a tool, at once', () => {
    for (const text of [
      `\`\`\`${' '.repeat(MANY)}x`,
      `\`\`\`json${'\n'.repeat(MANY)}\`\`\`x`,
      `<invoke name="a"><parameter name=${'a'.repeat(MANY)}`,
    ])
      expect(leftToolCalls(text, 0, [{ name: 'a', description: '', parameters: { type: 'object', properties: {} } }]).attempts.length).toBeLessThan(
        2,
      );
  });

  it('are no end of a URL, no line break and no golden list, at once', () => {
    expect(withoutTrailingSlashes(`${'/'.repeat(MANY)}x`)).toHaveLength(MANY + 1);
    expect(onOneLine(`a${' '.repeat(MANY)}b`)).toHaveLength(MANY + 2);
    expect(readGoldenAnswers(`array([${']'.repeat(MANY)}x`, { name: 'a' }).ok).toBe(true);
    expect(refusedBy(403, Buffer.from(`${'1'.repeat(100)}x`))).toBe('other');
  });

  it('are no literal, no last space and no call of Python, at once', () => {
    expect(baseline(`'${"\\'".repeat(MANY)}`)).toContain('None');
    expect(rsplit(`a${' '.repeat(MANY / 2)}${'b'.repeat(MANY / 2)} c`)).toBe(`a|${'b'.repeat(MANY / 2)}|c`);
    const tool = { name: 'a', description: '', parameters: { type: 'object', properties: {} } };
    expect(pythonCalls(`a(${quotes}`, [tool])).toMatchObject([{ call: { problem: 'the call of Python is not closed' } }]);
  });
});

const baseline = (content: string) => lastLiteralBaseline('mini').reply([{ role: 'user', content }]);
const rsplit = (text: string) => new PythonTemplate("{{ text.rsplit() | join('|') }}", { isChat: true }).render({ text });

describe('what replaced a pattern', () => {
  const random = Random.fromSeed(7);
  /** 5,000 texts of up to 12 of the pieces. */
  function* texts(pieces: readonly string[]): Generator<string> {
    for (let i = 0; i < 5_000; i++) yield Array.from({ length: random.integer(13) }, () => pieces[random.integer(pieces.length)]!).join('');
  }

  it('gives what the pattern gave', () => {
    for (const text of texts(['/', '/v1', 'a', '\n'])) {
      expect(withoutTrailingSlashes(text)).toBe(text.replace(/\/+$/, ''));
      expect(serverRoot(text)).toBe(text.replace(/\/+$/, '').replace(/\/v1$/, ''));
    }
    for (const text of texts([' ', '\n', '\r', '\t', 'a', '\u2028'])) expect(onOneLine(text)).toBe(text.replace(/\s*[\r\n]\s*/g, ' '));
    // Without an end, a string is no JSON either way.
    for (const text of texts(['"', '\\', 'NaN', '-', 'Infinity', ' ', 'a', '\n', '[', ']', ',']))
      expect(jsonOf(withoutNonFinite(text))).toEqual(
        jsonOf(text.replace(/"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/gs, (found) => (found.startsWith('"') ? found : 'null'))),
      );
  });
});

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return 'no JSON';
  }
}
