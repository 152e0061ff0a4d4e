import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { FLAG_NAMES } from '../../../src/cli/eval/evaluation-request.ts';
import { openPolicy } from '../../../src/sessions/policy/open-policy.ts';
import type { EndpointTarget } from '../../../src/sessions/policy/policy-target.ts';
import { EmbeddedPolicy } from '../../../src/sessions/policy/embedded-policy.ts';
import { Dataset, type Row } from '../../../src/core/dataset.ts';
import { EnvGroup } from '../../../src/core/env-group.ts';
import { Rubric } from '../../../src/core/rubric.ts';
import { SingleTurnEnv } from '../../../src/core/single-turn.ts';
import { RunImages } from '../../../src/files/run-images.ts';
import { loadEnvironment } from '../../images/gallery.ts';
import { rulesOf } from '../../images/vlm-client.ts';
import { imageServer } from '../../loopback/image-server.ts';
import { chatServer } from '../../models/chat-server.ts';
import { assertPlayable } from '../../../src/rollouts/assert-playable.ts';

const NANO = join(import.meta.dirname, '../../models/nano-base');
const { signal } = new AbortController();
const folder = mkdtempSync(join(tmpdir(), 'open-policy-'));
afterAll(() => rmSync(folder, { recursive: true }));

const environment = { id: 'lab', turnFormat: 'chat', needs: ['native_tools'] } as const;
const options = { environment, seed: 0, maxRetries: 0, maxConcurrent: 1, names: FLAG_NAMES, variables: {}, signal };
const refusal = /lab calls tools natively, and .* writes calls in no format that can be parsed/;

const MESSAGES = '{% for m in messages %}{{ m["content"] }}\n{% endfor %}';
const TEMPLATES = {
  'without-tools': `${MESSAGES}A:`,
  'own-calls': `{{ tools | tojson }}${MESSAGES.replace('{{ m["content"] }}', '{{ m["content"] }}{% if m["tool_calls"] %}CALL {{ m["tool_calls"] | tojson }}{% endif %}')}A:`,
};

function modelOf(name: keyof typeof TEMPLATES): string {
  const directory = join(folder, name);
  cpSync(NANO, directory, { recursive: true });
  const path = join(directory, 'tokenizer_config.json');
  const config = JSON.parse(readFileSync(path, 'utf8')) as object;
  writeFileSync(path, JSON.stringify({ ...config, chat_template: TEMPLATES[name] }));
  return directory;
}

async function serve(name: keyof typeof TEMPLATES): Promise<{ target: EndpointTarget; server: EmbeddedPolicy }> {
  const server = await EmbeddedPolicy.open({
    engine: { modelPath: modelOf(name), threads: 1, cacheTokens: 4096 },
    servedName: name,
    logProbsMode: 'raw',
    signal,
  });
  const { baseUrl, apiKey } = server;
  const rest = { keyVariable: null, headers: {}, clientType: 'auto', alias: null, chosenBy: '-b' } as const;
  return { server, target: { kind: 'endpoint', model: name, baseUrls: [baseUrl], apiKey, ...rest } };
}

describe('openPolicy', () => {
  it('sends the images of an environment to a chat API, from the store of the environment', async () => {
    const sent: unknown[] = [];
    await using server = await chatServer((body) => {
      sent.push(body.messages);
      return 'A heron.';
    });
    const image = { sha256: 'a', mediaType: 'image/png', width: 1, height: 1 };
    const images = { put: async () => image, get: async () => Uint8Array.of(1, 2, 3) };
    const row: Row = { exampleId: 0, prompt: [{ role: 'user', content: [{ type: 'image', image }] }] };
    const shown = new SingleTurnEnv({ id: 'shown', eval: new Dataset('rows', [row]), rubric: new Rubric({ funcs: [] }), images });
    const rest = { apiKey: null, keyVariable: null, headers: {}, clientType: 'auto', alias: null, chosenBy: '-b' } as const;
    const target = { kind: 'endpoint', model: 'judge-model', baseUrls: [`${server.url}/v1`], ...rest } as const;
    for (const each of [shown, new EnvGroup({ id: 'group', environments: { shown } })]) {
      await using policy = await openPolicy(target, { ...options, environment: each });
      assertPlayable(each, policy.client);
      await using lease = await policy.client.lease(signal);
      if (lease.kind !== 'chat') throw new Error('The policy does not chat.');
      await lease.generate({ prompt: row.prompt, sampling: { temperature: 1, topP: 1 }, maxNewTokens: 9, stop: [], signal });
    }
    const storeless = { id: 'storeless', turnFormat: 'chat', needs: ['images'] } as const;
    await expect(openPolicy(target, { ...options, environment: storeless })).rejects.toThrow('storeless shows images, but has no ImageStore');
    const content = [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AQID' } }];
    expect(sent).toEqual([[{ role: 'user', content }], [{ role: 'user', content }]]);
  });

  it.each(['without-tools', 'own-calls'] as const)(
    'refuses native tools for an embedded model whose template cannot serve them (%s)',
    async (name) => {
      const playing = async () => {
        await using policy = await openPolicy({ kind: 'embedded', model: modelOf(name) }, options);
        assertPlayable(environment, policy.client);
      };
      await expect(playing()).rejects.toThrow(refusal);
    },
  );

  it('refuses a server whose chat template drops the tools, in place of a chat that drops them too', async () => {
    const { server, target } = await serve('without-tools');
    await using _ = server;
    await expect(openPolicy(target, options)).rejects.toThrow(refusal);
  });

  it('plays a server as a chat where its template spells calls in a form of its own, and says why', async () => {
    const { server, target } = await serve('own-calls');
    await using _ = server;
    await using policy = await openPolicy(target, options);
    expect(policy.client.capabilities.kind).toBe('chat');
    expect(policy.description).toMatch(
      /\(chat messages, because its chat template writes tool calls in no known format, so the server must parse them\)$/,
    );
  });

  describe('for an environment that shows images', () => {
    const gallery = async () => loadEnvironment({}, { images: new RunImages() });
    const targetOf = (url: string, clientType: EndpointTarget['clientType'] = 'auto'): EndpointTarget => ({
      kind: 'endpoint',
      model: 'qwen3_vl',
      baseUrls: [`${url}/v1`],
      apiKey: null,
      keyVariable: null,
      headers: {},
      clientType,
      alias: null,
      chosenBy: '-b',
    });

    it('plays a vision model by token ids, and says how it sees images', async () => {
      await using server = await imageServer();
      await using policy = await openPolicy(targetOf(server.url), { ...options, environment: await gallery() });
      expect(policy.client.capabilities).toMatchObject({ kind: 'tokens', images: true, imageTokens: rulesOf('qwen3_vl') });
      expect(policy.description).toMatch(/token ids in and out, .*images of 4,096 to 1,048,576 pixels, 32 × 32 a token, at most 16 a prompt\)$/);
    });

    it('plays it by messages where the route of token ids is missing, and names the flag', async () => {
      await using server = await imageServer({ hasRoute: false });
      await using policy = await openPolicy(targetOf(server.url), { ...options, environment: await gallery() });
      expect(policy.client.capabilities).toMatchObject({ kind: 'chat', images: true });
      expect(policy.description).toMatch(
        /because the environment shows images, and by token ids the server cannot see them: it has no route .*--enable-scale-out/,
      );
    });

    it('leaves the refusal to the caller where token ids were asked for', async () => {
      await using server = await imageServer({ hasRoute: false });
      const shown = await gallery();
      await using policy = await openPolicy(targetOf(server.url, 'tokens'), { ...options, environment: shown });
      expect(() => assertPlayable(shown, policy.client)).toThrow(
        /^gallery shows images, and qwen3_vl cannot see them: it has no route .*--enable-scale-out/,
      );
    });

    it('refuses a model that reads text only, also by messages', async () => {
      await using server = await imageServer({ sees: false });
      const opening = openPolicy(targetOf(server.url), { ...options, environment: await gallery() });
      await expect(opening).rejects.toThrow(
        /^gallery shows images, and qwen3_vl cannot see them: it takes no images .*Use a vision-language model behind vLLM or a chat API\.$/,
      );
    });

    it('asks nothing about images for an environment of text', async () => {
      await using server = await imageServer();
      await using policy = await openPolicy(targetOf(server.url), { ...options, environment: { id: 'plain', turnFormat: 'chat' } });
      expect(policy.client.capabilities.imageTokens).toBeUndefined();
    });

    it('refuses the embedded engine and the built-in baseline', async () => {
      const shown = await gallery();
      const embedded = async () => {
        await using policy = await openPolicy({ kind: 'embedded', model: NANO }, { ...options, environment: shown });
        assertPlayable(shown, policy.client);
      };
      await expect(embedded()).rejects.toThrow(
        /^gallery shows images, and nano-base cannot see them: it takes no images\. Use a vision-language model behind vLLM or a chat API\.$/,
      );
      await using baseline = await openPolicy({ kind: 'baseline', asked: true }, { ...options, environment: shown });
      expect(() => assertPlayable(shown, baseline.client)).toThrow(/^gallery shows images, and .* cannot see them\./);
    });
  });
});
