/** Builds SVG text: elements with escaped attributes and content. Refuses numbers that are not finite. */

export type SvgAttributes = Readonly<Record<string, string | number | null>>;

/** `<name ...>children</name>`; children are SVG already. Null attributes are left out. */
export function svgElement(name: string, attributes: SvgAttributes, ...children: readonly string[]): string {
  const written = Object.entries(attributes).flatMap(([key, value]) => (value === null ? [] : [` ${key}="${svgContent(valueText(key, value))}"`]));
  return children.length === 0 ? `<${name}${written.join('')}/>` : `<${name}${written.join('')}>${children.join('')}</${name}>`;
}

/** A text element; its text is escaped. */
export function svgText(text: string, attributes: SvgAttributes): string {
  return svgElement('text', attributes, svgContent(text));
}

/** Rounds to hundredths of a pixel, an invisible difference that keeps files small and identical on every machine. */
function valueText(key: string, value: string | number): string {
  if (typeof value === 'string') return value;
  if (!Number.isFinite(value)) throw new RangeError(`The SVG attribute ${key} must be finite, got ${value}; leave the point out`);
  return String(Math.round(value * 100) / 100);
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
/** Characters that XML 1.0 forbids, even escaped. */
// oxlint-disable-next-line no-control-regex -- control characters are what this is about
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

/** Text as the content of an element. */
export function svgContent(text: string): string {
  return text
    .toWellFormed()
    .replace(FORBIDDEN, '\ufffd')
    .replace(/[&<>"]/g, (char) => ENTITIES[char]!);
}
