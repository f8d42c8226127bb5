/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letters that Python reads as plain ones: NFKC makes ASCII of every character here that may stand
 * in an identifier (Unicode 14), and of no other.
 */
#include "risk/impl.h"

/* Characters in a row; '.': that one stays what it is. */
static const struct {
	uint32_t from;
	const char *to;
} rows[] = {
	{ 0xaa, "a" },
	{ 0xba, "o" },
	{ 0x17f, "s" },
	{ 0x2b0, "h.jr...wy" },
	{ 0x2e1, "lsx" },
	{ 0x1d2c, "A.B.DE.GHIJKLMN.O.PRTUWa...bde...g.km.o...ptu..v......iruv" },
	{ 0x1d9c, "c...f" },
	{ 0x1dbb, "z" },
	{ 0x2071, "i" },
	{ 0x207f, "n" },
	{ 0x2090, "aeox.hklmnpst" },
	{ 0x2102, "C.......gHHHh.IILl.N...PQRRR......Z...Z.K.BC.eEF.Mo....i" },
	{ 0x2145, "Ddeij" },
	{ 0x2160, "I...V....X..LCDMi...v....x..lcdm" },
	{ 0x2c7c, "jV" },
	{ 0xa7f2, "CFQ" },
	{ 0xfe33, "__" },
	{ 0xfe4d, "___" },
	{ 0xff10, "0123456789" },
	{ 0xff21, "ABCDEFGHIJKLMNOPQRSTUVWXYZ" },
	{ 0xff3f, "_" },
	{ 0xff41, "abcdefghijklmnopqrstuvwxyz" },
	{ 0x107a5, "q" },
	{ 0x1fbf0, "0123456789" },
};

/* One character, several letters. */
static const struct {
	uint32_t from;
	const char *to;
} groups[] = {
	{ 0x132, "IJ" },    { 0x133, "ij" },    { 0x1c7, "LJ" },  { 0x1c8, "Lj" },
	{ 0x1c9, "lj" },    { 0x1ca, "NJ" },    { 0x1cb, "Nj" },  { 0x1cc, "nj" },
	{ 0x1f1, "DZ" },    { 0x1f2, "Dz" },    { 0x1f3, "dz" },  { 0x2161, "II" },
	{ 0x2162, "III" },  { 0x2163, "IV" },   { 0x2165, "VI" }, { 0x2166, "VII" },
	{ 0x2167, "VIII" }, { 0x2168, "IX" },   { 0x216a, "XI" }, { 0x216b, "XII" },
	{ 0x2171, "ii" },   { 0x2172, "iii" },  { 0x2173, "iv" }, { 0x2175, "vi" },
	{ 0x2176, "vii" },  { 0x2177, "viii" }, { 0x2178, "ix" }, { 0x217a, "xi" },
	{ 0x217b, "xii" },  { 0xfb00, "ff" },   { 0xfb01, "fi" }, { 0xfb02, "fl" },
	{ 0xfb03, "ffi" },  { 0xfb04, "ffl" },  { 0xfb05, "st" }, { 0xfb06, "st" },
};

/* Mathematical alphabets: thirteen of 52 letters, five of ten digits. */
static char mathematical(uint32_t c)
{
	if (c >= 0x1d7ce && c <= 0x1d7ff)
		return (char)('0' + (c - 0x1d7ce) % 10);
	if (c >= 0x1d400 && c <= 0x1d6a3) {
		uint32_t k = (c - 0x1d400) % 52;

		return (char)(k < 26 ? 'A' + k : 'a' + k - 26);
	}
	return 0;
}

size_t letters_plain(uint32_t c, char out[LETTERS_MAX])
{
	out[0] = mathematical(c);
	if (out[0])
		return 1;
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		uint32_t k = c - rows[i].from;

		if (c < rows[i].from || k >= strlen(rows[i].to))
			continue;
		out[0] = rows[i].to[k];
		if (out[0] != '.')
			return 1;
	}
	for (size_t i = 0; i < ELEMENTSOF(groups); i++) {
		if (groups[i].from == c) {
			memcpy(out, groups[i].to, strlen(groups[i].to));
			return strlen(groups[i].to);
		}
	}
	return 0;
}
