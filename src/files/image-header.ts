/** Size and type of a picture from its first bytes: PNG, JPEG, WebP. Decodes nothing. */

export interface ImageHeader {
  readonly mediaType: 'image/png' | 'image/jpeg' | 'image/webp';
  readonly width: number;
  readonly height: number;
}

/** Null for anything else, for torn bytes, and for a picture without pixels. */
export function imageHeader(bytes: Uint8Array): ImageHeader | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = pngHeader(view) ?? jpegHeader(view) ?? webpHeader(view);
  return found !== null && found.width > 0 && found.height > 0 ? found : null;
}

function pngHeader(view: DataView): ImageHeader | null {
  if (view.byteLength < 24 || view.getUint32(0) !== 0x89504e47 || view.getUint32(4) !== 0x0d0a1a0a) return null;
  return { mediaType: 'image/png', width: view.getUint32(16), height: view.getUint32(20) };
}

function jpegHeader(view: DataView): ImageHeader | null {
  if (view.byteLength < 4 || view.getUint16(0) !== 0xffd8) return null;
  for (let at = 2; at + 9 <= view.byteLength;) {
    if (view.getUint8(at) !== 0xff) return null;
    const marker = view.getUint8(at + 1);
    // A frame, unless the marker is one of a table (C4, C8, CC).
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
      return { mediaType: 'image/jpeg', width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    // Fill bytes may precede a marker.
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
  return null;
}

function webpHeader(view: DataView): ImageHeader | null {
  if (view.byteLength < 30 || view.getUint32(0) !== 0x52494646 || view.getUint32(8) !== 0x57454250) return null;
  const size24 = (at: number) => 1 + view.getUint16(at, true) + (view.getUint8(at + 2) << 16);
  const kind = view.getUint32(12);
  const mediaType = 'image/webp';
  if (kind === 0x56503858) return { mediaType, width: size24(24), height: size24(27) };
  if (kind === 0x56503820) return { mediaType, width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
  if (kind !== 0x5650384c) return null;
  const bits = view.getUint32(21, true);
  return { mediaType, width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) };
}
