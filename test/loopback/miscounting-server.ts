/** A server of a vision-language model that reports a wrong number of tokens for a picture of one size. */
import { type ImageServer, imageServer } from './image-server.ts';
import { type Loopback, loopback, readText } from '../transport/loopback.ts';

/** A request to `/tokenize`. */
interface Asked {
  readonly messages?: readonly { readonly content: string | readonly { readonly image_url?: { readonly url: string } }[] }[];
}

/** @param side of the square picture in pixels, `pads` its tokens as the server reports them */
export async function miscountingServer({ side, pads }: { readonly side: number; readonly pads: number }): Promise<Loopback> {
  const honest: ImageServer = await imageServer();
  const server = await loopback(async (request, response) => {
    const body = await readText(request);
    const { messages = [] } = (body === '' ? {} : JSON.parse(body)) as Asked;
    const urls = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content.flatMap(({ image_url: image }) => image?.url ?? [])));
    const answer = await fetch(`${honest.url}${request.url}`, request.method === 'GET' ? {} : { method: 'POST', body });
    const text = await answer.text();
    const isMiscounted = request.url === '/tokenize' && urls.length === 1 && widthOf(urls[0]!) === side;
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(isMiscounted ? counted(text, pads) : text);
  });
  return {
    ...server,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await honest[Symbol.asyncDispose]();
    },
  };
}

function widthOf(url: string): number {
  return Buffer.from(url.split(',')[1]!, 'base64').readUInt32BE(16);
}

const PAD = 1600;

/** The answer with so many tokens of the picture. */
function counted(text: string, pads: number): string {
  const answer = JSON.parse(text) as { readonly tokens: readonly number[] };
  const at = answer.tokens.indexOf(PAD);
  const others = answer.tokens.filter((id) => id !== PAD);
  return JSON.stringify({ ...answer, tokens: [...others.slice(0, at), ...Array.from({ length: pads }, () => PAD), ...others.slice(at)] });
}
