/** Reads SVG as strict XML: every element with its attributes and text. Throws where a browser would refuse to draw. */
export interface SvgNode {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly children: SvgNode[];
  text: string;
}

export function parseSvg(source: string): SvgNode {
  const root: SvgNode = { name: '', attributes: {}, children: [], text: '' };
  const open = [root];
  let at = 0;
  for (const match of source.matchAll(/<(\/?)([a-zA-Z]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>/g)) {
    open.at(-1)!.text += unescapeXml(source.slice(at, match.index));
    at = match.index + match[0].length;
    const [, closing, name, written, single] = match as unknown as [string, string, string, string, string];
    if (closing !== '') {
      if (open.length === 1 || open.pop()!.name !== name) throw new Error(`</${name}> closes nothing that is open`);
      continue;
    }
    const pairs = [...written.matchAll(/([\w:-]+)="([^"]*)"/g)].map((pair): [string, string] => [pair[1]!, unescapeXml(pair[2]!)]);
    if (new Set(pairs.map(([key]) => key)).size < pairs.length) throw new Error(`<${name}> has an attribute twice`);
    const node = { name, attributes: Object.fromEntries(pairs), children: [], text: '' };
    open.at(-1)!.children.push(node);
    if (single === '') open.push(node);
  }
  if (open.length !== 1) throw new Error(`<${open.at(-1)!.name}> is never closed`);
  if (unescapeXml(source.slice(at)).trim() !== '' || root.children.length !== 1) throw new Error('Expected one root element');
  return root.children[0]!;
}

function unescapeXml(text: string): string {
  if (/[<>]|&(?!(amp|lt|gt|quot);)/.test(text)) throw new Error(`not escaped: ${text.slice(0, 80)}`);
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&');
}

/** The node and everything in it for which `isWanted` holds, in the order of the document. */
export function findNodes(node: SvgNode, isWanted: (node: SvgNode) => boolean): SvgNode[] {
  return [...(isWanted(node) ? [node] : []), ...node.children.flatMap((child) => findNodes(child, isWanted))];
}

export const withClass = (name: string) => (node: SvgNode) => node.attributes['class'] === name;
