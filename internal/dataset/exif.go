package dataset

import (
	"bytes"
	"encoding/binary"
)

// Cameras store an image in the orientation of the sensor. The Exif field Orientation says how to turn the image.
// Browsers, OpenCV's imread and Hugging Face's datasets turn the image; torchvision's ImageFolder and Keras do not.
// rscert turns the image, and warns the user. Orientations are numbered as in Exif 2.32, section 4.6.4: 1 means
// upright, and the comments in storedAt explain 2 to 8.

// orientationTag is the tag of the field Orientation in the first directory of a TIFF file.
const orientationTag = 0x0112

// orientation returns the Exif orientation of an image file, 1 to 8. It returns 1 if the orientation is missing or
// damaged.
func orientation(file []byte) int {
	if code := tiffOrientation(exifBlock(file)); code >= 1 && code <= 8 {
		return code
	}
	return 1
}

// exifBlock returns the Exif data of a JPEG, PNG or WebP file. The Exif data have the form of a TIFF file. exifBlock
// returns nil if the file has no Exif data.
func exifBlock(file []byte) []byte {
	switch {
	case bytes.HasPrefix(file, []byte("\xff\xd8")):
		return jpegExif(file[2:])
	case bytes.HasPrefix(file, []byte("\x89PNG\r\n\x1a\n")):
		return chunk(file[8:], "eXIf", binary.BigEndian, true)
	case len(file) >= 12 && string(file[:4]) == "RIFF" && string(file[8:12]) == "WEBP":
		return bytes.TrimPrefix(chunk(file[12:], "EXIF", binary.LittleEndian, false), []byte("Exif\x00\x00"))
	}
	return nil
}

// jpegExif returns the Exif data of a JPEG file. It searches the segments before the pixels.
func jpegExif(segments []byte) []byte {
	for len(segments) >= 4 && segments[0] == 0xff {
		marker := segments[1]
		if marker == 0xff { // fill byte
			segments = segments[1:]
			continue
		}
		if marker == 0xda || marker == 0xd9 { // start of the pixels, end of the image
			return nil
		}
		size := int(binary.BigEndian.Uint16(segments[2:]))
		if size < 2 || size > len(segments)-2 {
			return nil
		}
		if exif, ok := bytes.CutPrefix(segments[4:2+size], []byte("Exif\x00\x00")); ok && marker == 0xe1 {
			return exif
		}
		segments = segments[2+size:]
	}
	return nil
}

// chunk returns the data of the first chunk with the given name. A chunk of PNG has its size, its name, its data and a
// checksum. A chunk of WebP has its name, its size, its data and a byte of padding if the size is odd.
func chunk(chunks []byte, name string, order binary.ByteOrder, png bool) []byte {
	for len(chunks) >= 8 {
		size, named, after := int64(order.Uint32(chunks[4:])), string(chunks[:4]), int64(0)
		if png {
			size, named, after = int64(order.Uint32(chunks)), string(chunks[4:8]), 4
		} else {
			after = size % 2
		}
		data := chunks[8:]
		if size > int64(len(data)) {
			return nil
		}
		if named == name {
			return data[:size]
		}
		chunks = data[min(size+after, int64(len(data))):]
	}
	return nil
}

// tiffOrientation returns the field Orientation in the first directory of a TIFF file, or 0 if there is none.
func tiffOrientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(tiff[:2]) {
	case "II":
	case "MM":
		order = binary.BigEndian
	default:
		return 0
	}
	start := int64(order.Uint32(tiff[4:]))
	if start+2 > int64(len(tiff)) {
		return 0
	}
	entries := tiff[start+2:]
	for range order.Uint16(tiff[start:]) {
		if len(entries) < 12 {
			return 0
		}
		const short = 3 // the type of an unsigned 16-bit number
		if order.Uint16(entries) == orientationTag && order.Uint16(entries[2:]) == short {
			return int(order.Uint16(entries[8:]))
		}
		entries = entries[12:]
	}
	return 0
}

// The function 'turned' reports whether height and width are swapped when an image of this orientation is turned
// upright.
func turned(orientation int) bool { return orientation >= 5 }

// turn turns an image [C,H,W] of this orientation upright, and writes the result to dst.
func turn(dst, src []float32, channels, height, width, orientation int) {
	h, w := height, width
	if turned(orientation) {
		h, w = width, height
	}
	for c := range channels {
		to, from := dst[c*h*w:], src[c*h*w:]
		for y := range h {
			for x := range w {
				i, j := storedAt(y, x, height, width, orientation)
				to[y*w+x] = from[i*width+j]
			}
		}
	}
}

// storedAt maps row y and column x of the upright image to a row and a column of the stored image. The arguments
// 'height' and 'width' are the sizes of the stored image.
func storedAt(y, x, height, width, orientation int) (i, j int) {
	bottom, right := height-1, width-1
	switch orientation {
	case 2: // mirrored left to right
		return y, right - x
	case 3: // turned by 180°
		return bottom - y, right - x
	case 4: // mirrored top to bottom
		return bottom - y, x
	case 5: // mirrored along the diagonal
		return x, y
	case 6: // to be turned by 90° clockwise
		return bottom - x, y
	case 7: // mirrored about the diagonal from top right to bottom left
		return bottom - x, right - y
	case 8: // to be turned by 90° counterclockwise
		return x, right - y
	}
	return y, x
}
