/** An MCP server for tests, over stdio or HTTP; its first argument says how it misbehaves. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { writeFileSync } from 'node:fs';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, GetPromptRequestSchema, ListPromptsRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [mode = 'well', pidFile] = process.argv.slice(2);
if (pidFile !== undefined) writeFileSync(pidFile, String(process.pid));

const TEXTS = { type: 'array', items: { type: 'string' } } as const;

function testServer(): Server {
  const server = new Server({ name: 'test', version: '1' }, { capabilities: { tools: {}, prompts: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: [
      {
        name: 'shout',
        inputSchema: { type: 'object', properties: { q_ls: TEXTS, suffix: { type: 'string' }, unused: { type: 'string' } }, required: ['q_ls'] },
        outputSchema: { type: 'object', properties: { loud_ls: TEXTS }, required: ['loud_ls'] },
      },
      { name: 'plain', inputSchema: { type: 'object', properties: { q_ls: TEXTS }, required: ['q_ls'] } },
    ],
  }));
  server.setRequestHandler(ListPromptsRequestSchema, async () => ({ prompts: [{ name: 'ask', arguments: [{ name: 'q_ls', required: true }] }] }));
  server.setRequestHandler(GetPromptRequestSchema, async ({ params }) => ({
    messages: (JSON.parse(params.arguments!['q_ls']!) as string[]).map((q) => ({
      role: 'user' as const,
      content: { type: 'text' as const, text: `Answer: ${q}` },
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    if (mode === 'dies') {
      process.stderr.write('out of memory\n');
      process.exit(3);
    }
    if (mode === 'hangs') {
      if (pidFile !== undefined) writeFileSync(`${pidFile}.called`, '');
      await new Promise(() => {});
    }
    if (mode === 'fails') return { isError: true, content: [{ type: 'text', text: `no such index for ${process.env['INDEX_KEY']}` }] };
    if (mode === 'garbage')
      return {
        content: [{ type: 'text', text: `not JSON for ${process.env['INDEX_KEY']}` }],
        ...(params.name === 'shout' && { structuredContent: { loud_ls: [] } }),
      };
    const { q_ls, suffix = '!' } = params.arguments as { q_ls: string[]; suffix?: string };
    const reply = { loud_ls: q_ls.map((q) => q.toUpperCase() + suffix) };
    return { content: [{ type: 'text', text: JSON.stringify(reply) }], ...(params.name === 'shout' && { structuredContent: reply }) };
  });
  return server;
}

if (mode === 'http') {
  const http = createServer((request, response) => {
    void (async () => {
      const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
      // A server of its own for every request: nothing is kept between them.
      await testServer().connect(transport);
      await transport.handleRequest(request, response);
    })();
  });
  http.listen(0, '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp\n`));
} else {
  // Does not end when its input does.
  if (mode === 'stubborn') setInterval(() => {}, 1000);
  await testServer().connect(new StdioServerTransport());
}
