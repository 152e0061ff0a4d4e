/** The layers of the architecture as data, checked against every import. `docs/architecture.md` shows the same table. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { parseSync } from 'oxc-parser';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');

/** What package.json gives to users as a whole; they may export from every layer, and no other file imports them. */
const ENTRIES = ['src/environment-kit.ts', 'src/index.ts', 'src/rollouts.ts', 'src/trainer.ts'];

/** Where implementations are not allowed, an interface file still is. */
const INTERFACES = ['src/clients/policy-client.ts', 'src/clients/policy-versions.ts', 'src/retrieval/retriever.ts'];

const BASE = ['src/core', 'src/schemas', 'src/transport', 'src/files'];
/** Everything from which a run is put together. */
const PARTS = [
  ...[
    'agents',
    'registry',
    'evaluate',
    'pipelines',
    'mcp',
    'trainer',
    'launch',
    'engine',
    'execution',
    'tokenizer',
    'rollouts',
    'clients',
    'models',
    'retrieval',
    'data',
    'tinker',
    'tinker/service',
  ].map((name) => `src/${name}`),
  ...BASE,
];

/** The part of the package that pages bundle: the wire of `vf-view`, and arithmetic. */
const FOR_PAGES = [
  'viewing/view-wire',
  'core/branch-text',
  'viewing/request-key',
  'core/setting-differences',
  'core/seed-statistics',
  'core/reward-scale',
].map((name) => `src/${name}.ts`);

/** Directory → the directories and files it may import from, besides its own. The longest directory that holds a file is its layer. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  'src/schemas': [],
  'src/core': ['src/schemas'],
  'src/transport': ['src/core'],
  'src/files': ['src/core', 'src/schemas'],
  'src/data': BASE,
  'src/tokenizer': ['src/core', 'src/schemas', 'src/files'],
  'src/clients': ['src/tinker', 'src/tinker/service', 'src/tokenizer', 'src/core', 'src/schemas', 'src/transport'],
  'src/tinker': ['src/core', 'src/schemas'],
  'src/tinker/service': ['src/tinker', 'src/core', 'src/schemas', 'src/transport'],
  'src/models': [...BASE, ...INTERFACES],
  'src/metrics': [],
  'src/retrieval': [...BASE, 'src/data', 'src/metrics/porter.ts', 'src/metrics/stop-words.ts'],
  'src/agents': ['src/core', 'src/schemas'],
  'src/rollouts': ['src/agents', 'src/core', 'src/schemas', ...INTERFACES],
  'src/trainer': ['src/agents', 'src/rollouts', 'src/models', 'src/engine', 'src/tinker', 'src/tinker/service', ...BASE, ...INTERFACES],
  'src/engine': ['src/tokenizer', 'src/core', 'src/schemas', 'src/files', 'src/data/bundled-models.ts'],
  'src/execution': BASE,
  'src/launch': BASE,
  'src/evaluate': ['src/agents', 'src/rollouts', 'src/models', ...BASE, ...INTERFACES],
  'src/mcp': BASE,
  'src/pipelines': ['src/mcp', 'src/metrics', 'src/tokenizer', ...BASE, ...INTERFACES],
  'src/rounds': [...BASE, 'src/metrics'],
  'src/viewing': ['src/trainer', 'src/evaluate', 'src/tokenizer', 'src/core', 'src/schemas', 'src/files', 'src/data/bundled-models.ts'],
  'src/registry': ['src/pipelines', 'src/metrics', 'src/data', 'src/retrieval', 'src/clients', 'src/models', 'src/engine', ...BASE],
  'src/templates': ['src/registry', 'src/data', ...BASE],
  'src/lab': ['src/trainer', 'src/engine', 'src/tokenizer', 'src/agents', 'src/rollouts', 'src/clients', 'src/retrieval', 'src/core', 'src/schemas'],
  'src/server': [
    'src/viewing',
    'src/tinker',
    // The interface of what trains.
    'src/trainer/gradient-backend.ts',
    'src/engine',
    'src/execution',
    'src/tokenizer',
    'src/agents',
    'src/rollouts',
    'src/clients',
    'src/retrieval',
    ...BASE,
  ],
  'src/reports': PARTS,
  // A model in this process is a policy server on loopback; an agent asks a gateway there.
  'src/sessions': ['src/reports', ...PARTS, 'src/server/policy/start-policy-server.ts', 'src/server/gateway/gateway.ts'],
  'src/doctor': ['src/sessions', 'src/reports', ...PARTS, 'src/server/listen.ts'],
  'src/rounds/driver': ['src/sessions', 'src/reports', 'src/rounds', ...PARTS],
  'src/serving': ['src/sessions', 'src/reports', 'src/server', ...PARTS],
  'src/library': ['src/sessions', 'src/reports', ...PARTS],
  'src/cli': [
    ...['sessions', 'reports', 'doctor', 'rounds', 'rounds/driver', 'templates', 'serving', 'viewing', 'server', 'metrics'].map(
      (name) => `src/${name}`,
    ),
    ...PARTS,
  ],
};

/** Only these may write to stdout or read process.env; the registry and the library only as the default of an option, for callers that are not commands. */
const MAY_TOUCH_PROCESS = ['src/cli', 'src/server', 'src/registry', 'src/library'];

interface Source {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
}

function sources(directory: string): Source[] {
  const paths = readdirSync(join(root, directory), { recursive: true, encoding: 'utf8' });
  // The kernels are AssemblyScript: another language in files of the same name.
  const typescript = paths.filter((path) => /\.tsx?$/.test(path) && !path.startsWith('engine/kernels/assembly/'));
  return typescript.map((name) => {
    const path = join(directory, name);
    const text = readFileSync(join(root, path), 'utf8');
    const { module } = parseSync(path, text);
    const froms = [
      ...module.staticImports.map((i) => i.moduleRequest.value),
      ...module.staticExports.flatMap((e) => e.entries.flatMap((x) => x.moduleRequest?.value ?? [])),
    ];
    const dynamic = module.dynamicImports.map((i) => text.slice(i.moduleRequest.start, i.moduleRequest.end).replace(/^['"]|['"]$/g, ''));
    return { path, text, imports: [...new Set([...froms, ...dynamic])] };
  });
}

const LAYERS = Object.keys(MAY_IMPORT).toSorted((a, b) => b.length - a.length);
const layerOf = (path: string) => LAYERS.find((layer) => path.startsWith(`${layer}/`)) ?? path;
const src = sources('src');
const pages = sources('web');
const environments = sources('environments');

describe('architecture', () => {
  it('looked at every layer', () => {
    expect(src.length).toBeGreaterThan(30);
    expect(environments.length).toBeGreaterThan(4);
    const layers = new Set(src.map((s) => layerOf(s.path)));
    for (const entry of ENTRIES) layers.delete(entry);
    expect([...layers].toSorted()).toEqual(Object.keys(MAY_IMPORT).toSorted());
  });

  it('imports only from below', () => {
    const climbing = src.flatMap(({ path, imports }) => {
      if (ENTRIES.includes(path)) return [];
      const layer = layerOf(path);
      const allowed = [layer, ...MAY_IMPORT[layer]!];
      const targets = imports.filter((i) => i.startsWith('.')).map((i) => relative(root, join(root, dirname(path), i)));
      return targets.filter((target) => !allowed.includes(target) && !allowed.includes(layerOf(target))).map((target) => `${path} → ${target}`);
    });
    expect(climbing).toEqual([]);
  });

  it('holds no name of an environment outside defaults and keys of files', () => {
    const names = readdirSync(join(root, 'environments'));
    const named = new Set<string>();
    for (const { path, text } of src) {
      if (!names.some((name) => text.includes(`'${name}'`))) continue;
      const { program } = parseSync(path, text);
      JSON.stringify(program, (_, node: { type?: unknown; value?: unknown } | null) => {
        if (node?.type === 'Literal' && names.includes(node.value as string)) named.add(`${path} ${node.value as string}`);
        return node;
      });
    }
    // An environment exports what a command wants to know of it, as `facts` or another function of its module, so that a user's own can say it too.
    expect([...named].toSorted()).toEqual([
      // Keys of options and of a wire, and the name of a finding.
      'src/cli/commands/vf-init.ts agent',
      // The default of an option.
      'src/cli/commands/vf-seed.ts self-play-code',
      'src/doctor/check-agent.ts agent',
      // A key of UltraRAG's file.
      'src/pipelines/pipeline.ts pipeline',
      // The default of a key.
      'src/rounds/driver/rounds-config.ts visual-rag',
      'src/server/verifiers/episode-record.ts agent',
    ]);
  });

  it('imports the commands from the commands alone', () => {
    const importing = src.filter(
      ({ path, imports }) => layerOf(path) !== 'src/cli' && imports.some((i) => join(dirname(path), i).startsWith('src/cli/')),
    );
    expect(importing.map(({ path }) => path)).toEqual([]);
  });

  it('has environments that know the package by its name only', () => {
    const escaping = environments.flatMap(({ path, imports }) => {
      const home = path.split('/').slice(0, 2).join('/');
      return imports.filter((i) => i.startsWith('.') && !join(dirname(path), i).startsWith(`${home}/`)).map((i) => `${path} → ${i}`);
    });
    expect(escaping).toEqual([]);
  });

  it('gives pages the types of the wire and nothing else of the package, except what computes, and lets no text become markup', () => {
    expect(pages.length).toBeGreaterThan(30);
    for (const { path, text, imports } of pages) {
      const outside = imports.filter((i) => i.startsWith('.')).map((i) => join(dirname(path), i));
      const isAllowed = (i: string) => i.startsWith('web/') || FOR_PAGES.includes(i) || path.startsWith('web/lab/compute/');
      expect({ path, outside: outside.filter((i) => !isAllowed(i)) }).toEqual({ path, outside: [] });
      expect({ path, markup: /innerHTML|outerHTML|insertAdjacentHTML|srcdoc|document\.write|\beval\(|new Function/i.test(text) }).toEqual({
        path,
        markup: false,
      });
    }
  });

  it('touches stdout and process.env only where allowed', () => {
    const touching = src.filter(
      ({ path, text }) => !MAY_TOUCH_PROCESS.includes(layerOf(path)) && /process\.(env|stdout|stderr|argv|exit)\b|\bconsole\./.test(text),
    );
    expect(touching.map(({ path }) => path)).toEqual([]);
  });

  it('has six barrels, which only users import', () => {
    const barrels = src.filter(({ path }) => path.endsWith('/index.ts')).map(({ path }) => path);
    expect(barrels.toSorted()).toEqual(['src/engine/index.ts', 'src/execution/index.ts', 'src/index.ts']);
    const importing = src
      .filter(({ path, imports }) => imports.some((i) => /(^|\/)index\.ts$/.test(i) || ENTRIES.includes(join(dirname(path), i))))
      .map(({ path }) => path);
    expect(importing).toEqual([]);
  });

  it('keeps the core free of network, files and clocks', () => {
    for (const { path, text, imports } of src.filter((s) => layerOf(s.path) === 'src/core')) {
      expect({ path, outside: imports.filter((i) => i.startsWith('node:') || ['undici', 'hono', 'openai'].includes(i)) }).toEqual({
        path,
        outside: [],
      });
      expect({ path, clock: /\bDate\.now\b|\bnew Date\b|performance\.now|\bsetTimeout\b|\bfetch\(/.test(text) }).toEqual({ path, clock: false });
    }
  });

  it('waits for a signal only through src/core/abort.ts, which removes its listeners', () => {
    const listening = [...src, ...environments].filter(({ text }) => /addEventListener\(\s*'abort'/.test(text)).map((s) => s.path);
    expect(listening).toEqual(['src/core/abort.ts']);
  });

  it('draws every random number from the seeded generator', () => {
    const drawing = [...src, ...environments].filter(({ text }) => /Math\.random|randomUUID|randomBytes/.test(text)).map((s) => s.path);
    // Run directories need a name that no other process picks, servers on loopback a key, episodes a name that no other caller guesses, requests to a service a key of their own, jobs of a sandbox one that no program writes by chance, and styles a mark that no text of others holds; none is part of a run's numbers.
    const names = [
      'src/evaluate/run-directory',
      'src/pipelines/run-folder',
      'src/cli/',
      'src/server/',
      'src/tinker/service/',
      'src/execution/',
      'src/reports/text/terminal-text',
      'src/sessions/policy/',
      'src/sessions/training/',
    ];
    expect(drawing.filter((path) => !names.some((name) => path.startsWith(name)))).toEqual([]);
  });

  it('keeps the arithmetic of training pure: core types, its joint and itself, no network, files or clock', () => {
    const algorithm = src.filter(({ path }) => path.startsWith('src/trainer/losses/'));
    expect(algorithm.length).toBeGreaterThan(5);
    for (const { path, text, imports } of algorithm) {
      const outside = imports.filter((i) => !/^\.\/[\w-]+\.ts$|^\.\.\/token-loss\.ts$|^\.\.\/\.\.\/(core|schemas)\/[\w-]+\.ts$/.test(i));
      expect({ path, outside, clock: /\bDate\.now\b|\bnew Date\b|performance\.now|\bsetTimeout\b|\bfetch\(/.test(text) }).toEqual({
        path,
        outside: [],
        clock: false,
      });
    }
  });

  it('keeps files within 300 lines', () => {
    const python = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.py'));
    const modules = python.map((name) => ({ path: join('src', name), text: readFileSync(join(root, 'src', name), 'utf8') }));
    expect(modules.length).toBeGreaterThan(10);
    const written = src.filter(({ path }) => !path.includes('/generated/'));
    const long = [...written, ...environments, ...pages, ...modules]
      .map(({ path, text }) => [path, text.split('\n').length - 1] as const)
      .filter(([, lines]) => lines > 300);
    expect(long).toEqual([]);
  });
});
