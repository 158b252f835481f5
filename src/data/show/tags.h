/* Names of objects on a picture. Not collective. */
#ifndef DATA_SHOW_TAGS_H
#define DATA_SHOW_TAGS_H

#include "data/show/objects.h"

/* A name at a corner of its box, where it covers no other name and is within the picture; of objects of one
 * category the largest has one, the others where their box is larger than their name. Where there is no such
 * place there is no name: the colour tells. objects: in the order in which they are drawn. */
void tags_draw(objects_t *objects, const objects_picture_t *picture, page_t *page);

#endif
