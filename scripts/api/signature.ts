/** The public face of a declaration: its source without bodies, private members and comments. */
import type { Declaration, SyntaxNode } from './declarations.ts';

interface Signature {
  readonly text: string;
  /** Names of types in it, some of which are type parameters or globals. */
  readonly types: ReadonlySet<string>;
  /** Functions and methods that leave their result to inference, which no signature shows. */
  readonly inferred: readonly string[];
}

export function signatureOf({ module, name, nodes }: Declaration): Signature {
  const hidden: [start: number, end: number, instead: string][] = module.comments.map(({ start, end }) => [start, end, '']);
  const types = new Set<string>();
  const inferred: string[] = [];
  const isOverloaded = nodes.some(({ node }) => node.type === 'TSDeclareFunction');
  const shown = nodes.filter(({ node }) => !isOverloaded || node.type === 'TSDeclareFunction');
  const hide = ({ start, end }: SyntaxNode, instead = '') => void hidden.push([start, end, instead]);

  function visit(value: unknown, label: string): void {
    if (Array.isArray(value)) return value.forEach((one) => visit(one, label));
    if (typeof value !== 'object' || value === null || !('type' in value)) return;
    const node = value as SyntaxNode;
    if (isPrivate(node)) return hide(node);
    const body = node['body'] as SyntaxNode | null | undefined;
    const key = (node['key'] as { name?: string } | undefined)?.name;
    const here = key === undefined ? label : `${label}.${key}`;
    if (/^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type)) {
      if (node['returnType'] === null && here.startsWith(name) && !/\.constructor$| set$/.test(here)) inferred.push(here);
      if (body) hide(body, node.type === 'ArrowFunctionExpression' ? '…' : '');
      return ['params', 'returnType', 'typeParameters'].forEach((part) => visit(node[part], here));
    }
    if (node.type === 'PropertyDefinition' || node.type === 'VariableDeclarator') {
      const annotation = (node['typeAnnotation'] ?? (node['id'] as SyntaxNode | undefined)?.['typeAnnotation']) as SyntaxNode | null | undefined;
      const initial = (node['value'] ?? node['init']) as SyntaxNode | null | undefined;
      if (annotation && initial) hidden.push([annotation.end, initial.end, '']);
      // The results of functions within a value are not part of the signature.
      return visit(annotation ?? initial, /Function/.test(initial?.type ?? '') ? here : '');
    }
    if (node.type === 'AssignmentPattern') return visit(node['left'], here);
    const named = (node['typeName'] ?? (/^(TSInterfaceHeritage|TSClassImplements)$/.test(node.type) ? node['expression'] : node['superClass'])) as
      | { name?: string }
      | null
      | undefined;
    if (named?.name !== undefined) types.add(named.name);
    for (const [part, inner] of Object.entries(node))
      if (part !== 'key' && part !== 'parent') visit(inner, node['kind'] === 'set' ? `${here} set` : here);
  }

  const texts = shown.map(({ node }) => {
    const declared =
      node.type === 'VariableDeclaration'
        ? (node['declarations'] as SyntaxNode[]).find((one) => (one['id'] as { name: string }).name === name)!
        : node;
    visit(declared, name);
    return `${declared === node ? '' : 'const '}${without(module.text, declared, hidden)}`;
  });
  return { text: texts.join('\n'), types, inferred };
}

function isPrivate(node: SyntaxNode): boolean {
  if (node.type === 'StaticBlock' || node['accessibility'] === 'private') return true;
  return (node['key'] as { type?: string } | undefined)?.type === 'PrivateIdentifier';
}

/** The text of a node without the hidden spans, and without the lines that this leaves empty. */
function without(text: string, { start, end }: SyntaxNode, hidden: readonly (readonly [number, number, string])[]): string {
  let at = start;
  let kept = '';
  for (const [from, to, instead] of hidden.toSorted((a, b) => a[0] - b[0])) {
    if (from < at || to > end) continue;
    kept += text.slice(at, from) + instead;
    at = to;
  }
  const lines = (kept + text.slice(at, end)).split('\n').map((line) => line.trimEnd());
  return lines.filter((line) => !/^\s*;?$/.test(line)).join('\n');
}

/** The docstring right before a declaration; the empty text if it has none. */
export function docstringOf({ module, nodes }: Declaration): string {
  const texts = nodes.map(({ outer }) => {
    const comment = module.comments.findLast(({ end }) => end <= outer.start);
    const isDoc = comment?.type === 'Block' && comment.value.startsWith('*') && module.text.slice(comment.end, outer.start).trim() === '';
    return isDoc ? comment.value : '';
  });
  return texts.join('\n').trim();
}
