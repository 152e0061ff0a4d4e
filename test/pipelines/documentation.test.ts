import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { BUILTIN_SERVERS, builtinServer } from '../../src/pipelines/servers/builtin-servers.ts';
import { TOOLS_VERSIONS } from '../../src/pipelines/servers/tools-version.ts';
import type { ServiceOpeners } from '../../src/pipelines/service-openers.ts';

it('docs/pipelines.md lists every built-in tool with its inputs and outputs, and no others', () => {
  const text = readFileSync(join(import.meta.dirname, '../../docs/pipelines.md'), 'utf8');
  const listed = [...text.matchAll(/^\| `([\w-]+\.\w+)`[^|]*\| `([^`]+)` \|/gm)].map(([, name, io]) => `${name} ${io}`);
  const tools = TOOLS_VERSIONS.flatMap((version) =>
    BUILTIN_SERVERS.flatMap((name) => {
      const server = builtinServer(name, { version, openers: {} as ServiceOpeners, given: {} });
      return Object.entries(server.tools).map(([tool, { io }]) => `${name}.${tool} ${io as string}`);
    }),
  );
  expect([...new Set(listed)].toSorted()).toEqual([...new Set(tools)].toSorted());
});
